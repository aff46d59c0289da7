"""A run's numbers as CSV, in an order that does not depend on how it ran."""

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from reproduction import data
from reproduction.work import EXPERIMENTS, METHODS, Job, Result
from vbsvm.report.document import write_page


def write(folder: Path, results: Mapping[Job, Result]) -> None:
    """Errors and inclusion probabilities, which the seed decides; seconds, which it does not, in their own file."""
    ordered = sorted(results.values(), key=_order)
    _write_csv(
        folder / "errors.csv",
        ("experiment", "cell", "replicate", "method", "balanced_error"),
        ((*_named(one.job), repr(one.error)) for one in ordered if one.error is not None and not one.job.timed),
    )
    _write_csv(
        folder / "seconds.csv",
        ("experiment", "cell", "replicate", "method", "timed_alone", "seconds"),
        ((*_named(one.job), int(one.job.timed), f"{one.seconds:.6g}") for one in ordered),
    )
    _write_csv(
        folder / "inclusion.csv",
        ("method", "input", "inclusion", "positive"),
        (
            (one.job.method, name, repr(p), repr(sign))
            for one in ordered
            if one.inclusion
            for name, p, sign in zip(data.spam()[0], one.inclusion, one.positive, strict=True)
        ),
    )


def _named(job: Job) -> tuple[str, str, int, str]:
    return job.experiment, job.cell, job.replicate, job.method


def _order(result: Result) -> tuple[Any, ...]:
    job = result.job
    return EXPERIMENTS.index(job.experiment), job.sizes, job.replicate, METHODS.index(job.method), job.timed


def _write_csv(path: Path, head: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(head)
    writer.writerows(rows)
    write_page(path, text.getvalue())
