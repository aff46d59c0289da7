"""What was found, in the form in which claims are judged: paired differences with intervals, and times."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import final

import numpy as np
from scipy import stats

from reproduction.data import Array
from reproduction.work import GIBBS, MCMC, TIMED, Job, Result


@final
@dataclass(frozen=True)
class Interval:
    """A mean with its 95 % interval over ``count`` data sets."""

    mean: float
    low: float
    high: float
    count: int

    @staticmethod
    def of(values: Array) -> "Interval":
        """By Student's t; without limits where there are fewer than two values."""
        mean, n = float(values.mean()), len(values)
        half = float(stats.t.ppf(0.975, n - 1) * values.std(ddof=1) / np.sqrt(n)) if n > 1 else np.inf
        return Interval(mean, mean - half, mean + half, n)

    def __str__(self) -> str:
        """In percentage points."""
        low, high = 100 * self.low, 100 * self.high
        return f"{100 * self.mean:+.2f} ({low:+.2f} to {high:+.2f})"


@final
@dataclass(frozen=True, eq=False)
class Findings:
    """Results by job."""

    results: Mapping[Job, Result]

    def errors(self, experiment: str, cell: str, methods: Sequence[str]) -> dict[str, Array]:
        """Balanced errors of the methods, aligned, on the data sets that all of them have seen."""
        by_method: dict[str, dict[int, float]] = {method: {} for method in methods}
        for job, result in self.results.items():
            if (job.experiment, job.cell, job.timed) == (experiment, cell, False) and job.method in by_method:
                assert result.error is not None
                by_method[job.method][job.replicate] = result.error
        shared = sorted(set.intersection(*(set(found) for found in by_method.values())))
        return {method: np.array([found[i] for i in shared]) for method, found in by_method.items()}

    def difference(self, experiment: str, cells: Sequence[str], one: str, other: str) -> Interval | None:
        """Mean paired difference of balanced errors, one − other, over the data sets of all cells.

        None where a cell has fewer than two.
        """
        found = [self.errors(experiment, cell, (one, other)) for cell in cells]
        values = [errors[one] - errors[other] for errors in found]
        return Interval.of(np.concatenate(values)) if min(map(len, values)) > 1 else None

    def seconds(self, experiment: str, method: str) -> float | None:
        """Seconds of the timed data set; for spam of the one run."""
        timed = experiment in TIMED
        result = self.results.get(Job(experiment, TIMED.get(experiment, ""), 0, method, timed))
        return None if result is None else result.seconds

    def selection(self, method: str) -> Result | None:
        """Inclusion probabilities on spam."""
        return self.results.get(Job("spam", "", 0, method))

    def by_gibbs(self) -> "Findings":
        """The same with this package's sampler in the place of the paper's."""
        others = {job: result for job, result in self.results.items() if job.method not in (MCMC, GIBBS)}
        ours = {replace(job, method=MCMC): result for job, result in self.results.items() if job.method == GIBBS}
        return Findings(others | ours)
