"""SGDClassifier (scikit-learn) over the rows of Parquet files, batch by batch and round by round."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

ROUNDS = 10
BATCH = 10_000


def rounds(folder: Path) -> Iterator[Callable[[Any], np.ndarray]]:
    """Yield, after each round over the files, what predicts labels of a data frame."""
    import pyarrow.parquet as pq
    from sklearn.linear_model import SGDClassifier

    clf = SGDClassifier(random_state=0)
    for _ in range(ROUNDS):
        for path in sorted(folder.glob("*.parquet")):
            for batch in pq.ParquetFile(path).iter_batches(BATCH):
                frame = batch.to_pandas()
                clf.partial_fit(frame.drop(columns="y").to_numpy(), frame["y"].to_numpy(), classes=["no", "yes"])
        yield lambda test: clf.predict(test.to_numpy())
