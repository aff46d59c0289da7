"""Spark's LinearSVC of the rows of Parquet files, with two threads on this machine; settings by default."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np


def rounds(folder: Path) -> Iterator[Callable[[Any], np.ndarray]]:
    """Fit once, and yield what predicts labels of a data frame."""
    from pyspark.ml.classification import LinearSVC
    from pyspark.ml.feature import VectorAssembler
    from pyspark.sql import SparkSession, functions

    settings = {"spark.driver.memory": "6g", "spark.ui.enabled": "false", "spark.driver.bindAddress": "127.0.0.1"}
    builder = SparkSession.builder.master("local[2]").appName("benchmarks")
    for name, value in settings.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    try:
        frame = session.read.parquet(*(str(path) for path in sorted(folder.glob("*.parquet"))))
        names = [name for name in frame.columns if name != "y"]
        rows = VectorAssembler(inputCols=names, outputCol="features").transform(frame)
        rows = rows.select("features", (functions.col("y") == "yes").cast("double").alias("label")).cache()
        model = LinearSVC().fit(rows)
        slopes, intercept = model.coefficients.toArray(), model.intercept
    finally:
        session.stop()
    yield lambda test: np.where(test[names].to_numpy() @ slopes + intercept > 0, "yes", "no")
