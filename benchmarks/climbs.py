"""Climbs: where the default climb ends, and after how many passes, beside the steps of ``AndersonNewton``.

A reference says who is nearer to the optimum: the better of both, continued at a tolerance of 1e-12.
"""

import argparse
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import final

import numpy as np
from scipy.special import expit

from benchmarks.tables import print_table
from vbsvm import VBSVC, Variational
from vbsvm.api.task import Task
from vbsvm.base.arrays import single_threaded_blas
from vbsvm.inference.loop import OptimizeResult, Status, optimize
from vbsvm.inference.steps import AndersonNewton

KINDS = (
    "overlapping",
    "separable",
    "rare class",
    "no signal",
    "correlated",
    "heavy tails",
    "whole weights",
    "fractional weights",
    "float32",
    "memory-mapped",
    "offset 1e6",
    "groups",
)
FEWEST_ROWS, MOST_ROWS, MOST_COLUMNS = 60, 5000, 60
REFERENCE_TOL, REFERENCE_PASSES = 1e-12, 20_000
# Problems are listed where the default ends lower by more nats than the first, or with coefficients (of standardised
# inputs) further apart than the second.
LOWER, APART = 1e-6, 1e-5


@final
@dataclass(frozen=True, eq=False)
class Problem:
    """Rows of one kind, drawn by number; ``X`` holds the group in its last column where ``group`` says so."""

    number: int
    kind: str
    X: np.ndarray
    y: np.ndarray
    weights: np.ndarray | None = None
    group: int | None = None

    def task(self) -> Task:
        """What a fit climbs."""
        return VBSVC(group=self.group)._tasks(self.X, self.y, self.weights)[0]


def draw(number: int, directory: Path) -> Problem:
    """The problem of this number; the same whatever other numbers there are."""
    rng, kind = np.random.default_rng([20_240, number]), KINDS[number % len(KINDS)]
    n = round(np.exp(rng.uniform(np.log(FEWEST_ROWS), np.log(MOST_ROWS))))
    d = round(np.exp(rng.uniform(0.0, np.log(MOST_COLUMNS))))
    X = inputs(kind, n, d, rng)
    u = rng.standard_normal(d)
    scores = standardised(X) @ u / np.linalg.norm(u) * rng.uniform(0.5, 3.0)
    if kind == "groups":
        group = rng.integers(0, max(2, n // rng.integers(3, 30)), n)
        scores = scores + rng.uniform(0.2, 2.0) * rng.standard_normal(n)[group]
        return Problem(number, kind, np.column_stack([X, group]), labels(kind, scores, rng), group=d)
    y, weights = labels(kind, scores, rng), None
    if kind == "whole weights":
        weights = rng.integers(0, 5, n).astype(float)
        weights[[y.argmin(), y.argmax()]] = 1.0
    elif kind == "fractional weights":
        weights = rng.gamma(1.0, size=n) * 10.0 ** rng.integers(-1, 2)
    elif kind == "float32":
        X = X.astype(np.float32)
    elif kind == "memory-mapped":
        np.save(directory / f"{number}.npy", X)
        X = np.load(directory / f"{number}.npy", mmap_mode="r")
    elif kind == "offset 1e6":
        X = X + 1e6
    return Problem(number, kind, X, y, weights)


def inputs(kind: str, n: int, d: int, rng: np.random.Generator) -> np.ndarray:
    """Normal inputs, correlated ones, or heavy tails."""
    if kind == "heavy tails":
        return rng.standard_t(1.5, size=(n, d))
    X = rng.standard_normal((n, d))
    if kind != "correlated":
        return X
    share = rng.choice([0.5, 0.9, 0.99, 0.9999])
    return np.sqrt(1 - share) * X + np.sqrt(share) * rng.standard_normal((n, 1))


def standardised(X: np.ndarray) -> np.ndarray:
    """Columns of mean 0 and standard deviation 1."""
    return (X - X.mean(axis=0)) / X.std(axis=0)


def labels(kind: str, scores: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """0 or 1 by a logistic model of the scores, or as the kind asks for; both occur."""
    if kind == "no signal":
        scores = np.zeros(len(scores))
    elif kind == "rare class":
        scores = scores - rng.uniform(3.0, 6.0)
    elif kind == "separable":
        scores = 1e9 * (scores - np.median(scores))
    y = (rng.random(len(scores)) < expit(scores)).astype(int)
    y[[scores.argmin(), scores.argmax()]] = 0, 1
    if kind == "no signal":
        y[:2] = 0, 1
    return y


@final
@dataclass(frozen=True, eq=False)
class Comparison:
    """Both climbs of a problem, and the reference that the better of them leads to."""

    problem: Problem
    default: OptimizeResult
    accelerated: OptimizeResult
    reference: OptimizeResult

    @property
    def gain(self) -> float:
        """How far the default ends above the other."""
        return bound(self.default) - bound(self.accelerated)

    @property
    def apart(self) -> float:
        """Largest difference of the coefficients of both."""
        return apart(self.default, self.accelerated)

    @property
    def more_passes(self) -> bool:
        """Whether the default takes more passes."""
        return self.default.passes > self.accelerated.passes

    def below(self, outcome: OptimizeResult) -> float:
        """How far a climb ended below the reference."""
        return bound(self.reference) - bound(outcome)

    def reasons(self) -> list[str]:
        """Why this problem is worth a look."""
        found = {
            "lower": self.gain < -LOWER,
            "apart": self.apart > APART,
            "more passes": self.more_passes,
            "not converged": self.default.ending is not Status.CONVERGED,
        }
        return [reason for reason, holds in found.items() if holds]

    def row(self) -> list[str]:
        """Give the cells of a table."""
        X, both = self.problem.X, (self.default, self.accelerated)
        offs = [apart(outcome, self.reference) for outcome in both]
        nearer = "default" if offs[0] < offs[1] else "AndersonNewton" if offs[1] < offs[0] else "neither"
        return [
            f"{self.problem.number}: {self.problem.kind}, {len(X)} x {X.shape[1] - (self.problem.group is not None)}",
            *(str(outcome.passes) for outcome in both),
            f"{self.gain:+.1e}",
            f"{self.apart:.1e}",
            *(f"{self.below(outcome):.1e}" for outcome in both),
            *(f"{off:.1e}" for off in offs),
            nearer,
            ", ".join(self.reasons()),
        ]


def bound(outcome: OptimizeResult) -> float:
    """Where a climb ended."""
    return float(outcome.bounds[-1])


def apart(one: OptimizeResult, other: OptimizeResult) -> float:
    """Largest difference of mean coefficients, of standardised inputs and of groups."""
    return float(np.abs(one.state.coefficients.mean - other.state.coefficients.mean).max())


def compare(problem: Problem) -> Comparison:
    """Climb in both ways, and on from the better end."""
    task, settings = problem.task(), Variational()
    spec, source = task.spec, task.source
    default = settings.run(spec, source)
    with single_threaded_blas():
        most = settings.most_passes(spec)
        accelerated = optimize(spec, source, spec.start(), AndersonNewton(), settings.tol, most)
        begin = max(default, accelerated, key=bound).state
        reference = optimize(spec, source, begin, AndersonNewton(), REFERENCE_TOL, REFERENCE_PASSES)
    return Comparison(problem, default, accelerated, reference)


def summary(name: str, found: Sequence[Comparison]) -> list[str]:
    """One line on problems of a kind."""
    return [
        name,
        str(len(found)),
        f"{np.mean([each.default.passes for each in found]):.1f}",
        f"{np.mean([each.accelerated.passes for each in found]):.1f}",
        f"{100 * np.mean([each.more_passes for each in found]):.0f} %",
        f"{min(each.gain for each in found):+.1e}",
        f"{max(each.apart for each in found):.1e}",
        f"{max(each.below(each.default) for each in found):.1e}",
        f"{max(each.below(each.accelerated) for each in found):.1e}",
        str(sum(bool(each.reasons()) for each in found)),
    ]


def print_comparisons(found: Sequence[Comparison]) -> None:
    """Print a line for each kind, and one for each problem that is worth a look."""
    lines = []
    for kind in KINDS:
        if of_kind := [each for each in found if each.problem.kind == kind]:
            lines.append(summary(kind, of_kind))
    lines.append(summary("all", found))
    print(
        f"\nThe default climb beside AndersonNewton, tol={Variational().tol:g}; below: bound of the reference − its own"
    )
    passes, below = ["passes: default", "AndersonNewton"], ["most below: default", "AndersonNewton"]
    print_table(["", "problems", *passes, "more", "worst gain", "most apart", *below, "listed"], lines)
    listed = [each.row() for each in found if each.reasons()]
    print(f"\nDefault lower by more than {LOWER:g}, apart by more than {APART:g}, with more passes, or not converged:")
    if not listed:
        print("none")
        return
    offs = ["from reference: default", "AndersonNewton", "nearer"]
    print_table(["", *passes, "gain", "apart", "below: default", "AndersonNewton", *offs, "why"], listed)


def run(numbers: Sequence[int]) -> None:
    """Compare the climbs of these problems."""
    found = []
    with tempfile.TemporaryDirectory() as directory:
        for number in numbers:
            try:
                found.append(compare(draw(number, Path(directory))))
            except Exception as error:
                error.add_note(f"This is problem {number}: python -m benchmarks climbs --only {number}")
                raise
    print_comparisons(found)


def main(arguments: list[str]) -> None:
    """Print the comparison."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks climbs", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="two problems of each kind")
    parser.add_argument("--problems", type=int, default=200, metavar="K", help="how many (default: 200)")
    parser.add_argument("--only", type=int, nargs="+", metavar="NUMBER", help="the problems of these numbers only")
    options = parser.parse_args(arguments)
    run(options.only or range(2 * len(KINDS) if options.quick else options.problems))
