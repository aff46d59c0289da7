"""One untuned fit: VBSVC beside LinearSVC, logistic regression and GPBoost, by the clock, by CPU time, and by a floor.

The floor of a fit is what its passes must compute over the speed of dgemm, with all of its threads, in the same run:
a pass over n rows of p columns (the intercept is one) needs a weighted gram and the variance of each row's score. Both
take n p (p + 1) / 2 multiply-adds, as the gram is symmetric and the variances need a triangular root only, and so
2 n p (p + 1) flops together; Cholesky and the inverse of its root add 2/3 p³. Where p > n: n (n + 1) p flops once for
the products of all rows, and n³ a pass. Everything else (weights, the bound, Newton's curvature) is not in the floor.
"""

import argparse
import contextlib
import re
import sys
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import Any, final

import numpy as np
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from benchmarks import groups
from benchmarks.methods import rivals_may_not_converge
from benchmarks.missing_data import cardiac
from benchmarks.rivals import gpboost_glmm, iterative_imputer, linear_svc, logistic_regression
from benchmarks.simulation import simulate_overlapping
from benchmarks.tables import print_table
from benchmarks.threads import busy_core
from benchmarks.timing import Cost, least_costs
from vbsvm import VBSVC, LaplaceZero, Model, Variational
from vbsvm.datasets import load_spam

SIZES = [
    *("200x10", "1000x10", "1000x100", "5000x50", "20000x20", "100000x10", "100000x50", "100000x100"),
    *("2000x500", "5000x1000", "500x5000", "5000x50x5", "20000x50x10"),
]
QUICK = ["200x10", "1000x100", "5000x50x5", "toenail", "spam", "cardiac"]
SVC, LOGISTIC, TUNED, GPBOOST = RIVALS = "LinearSVC", "LogisticRegression", "LogisticRegressionCV", "GPBoost"
# With one thread; it is the better of both where another process keeps a core busy.
GPBOOST_ALONE = "GPBoost, one thread"
OURS, EXACT, DGEMM = "vbsvm", "vbsvm, exact bound", "dgemm"
# LogisticRegressionCV makes 50 fits: it takes part where rows × columns × classes are no more than this.
MOST_TUNED_CELLS = 500_000
PEAK_SIZE = 1500

Fit = Callable[[], Any]


@final
@dataclass(frozen=True)
class Contest:
    """The fits of a cell, and what its passes cost at least; a rival that is left out has the reason in its place."""

    ours: Fit
    rivals: dict[str, Fit | str]
    exact: Fit | None = None
    flops: Callable[[int], float] | None = None


@final
@dataclass(frozen=True)
class Result:
    """A cell's costs, by contender, the passes of ours, and the flops that they need."""

    costs: dict[str, Cost]
    passes: dict[str, int]
    flops: dict[str, float]
    left_out: dict[str, str] = field(default_factory=dict)


NOTHING = Result({}, {}, {})


def simulated(n: int, d: int, classes: int = 2) -> Contest:
    """Simulated classes that overlap."""
    X, y = simulate_overlapping(n, d, classes)
    affordable = n * d * (1 if classes == 2 else classes) <= MOST_TUNED_CELLS
    return Contest(
        lambda: VBSVC().fit(X, y),
        {
            SVC: lambda: linear_svc.make().fit(X, y),
            LOGISTIC: lambda: logistic_regression.make().fit(X, y),
            TUNED: (lambda: logistic_regression.make_cv().fit(X, y)) if affordable else "too large",
        },
        lambda: VBSVC(inference=Variational(bound="exact")).fit(X, y),
        lambda passes: fewest_flops(n, d + 1, passes),
    )


def toenail() -> Contest:
    """Random intercepts of 294 patients; the model is built already, and so is the rival's design."""
    data = groups.toenail()
    model = Model(groups.FORMULA, data, likelihood="hinge")
    X = np.column_stack([np.ones(len(data)), data[groups.INPUTS].to_numpy()])
    y, patients = (data["outcome"] == "none or mild").to_numpy(dtype=float), data[groups.GROUP].to_numpy()
    rivals: dict[str, Fit | str] = {GPBOOST: "not installed"}
    if find_spec("gpboost"):
        rivals = {
            GPBOOST: lambda: gpboost_glmm.fit(patients, X, y),
            GPBOOST_ALONE: lambda: gpboost_glmm.fit(patients, X, y, threads=1),
        }
    return Contest(model.fit, rivals, lambda: model.fit(Variational(bound="exact")))


def spam() -> Contest:
    """Selection of inputs, beside rivals with an L1 penalty on standardised inputs; tuning one takes minutes."""
    data = load_spam()
    X, y = data.drop(columns="class").to_numpy(dtype=float), (data["class"] == "spam").to_numpy()
    n, d = X.shape

    def scaled(classifier: Any) -> Fit:
        return lambda: make_pipeline(StandardScaler(), classifier).fit(X, y)

    rivals: dict[str, Fit | str] = {
        SVC: scaled(linear_svc.make().set_params(penalty="l1")),
        LOGISTIC: scaled(logistic_regression.make_l1()),
        TUNED: "too slow",
    }
    return Contest(
        lambda: VBSVC(prior=LaplaceZero()).fit(X, y), rivals, flops=lambda passes: fewest_flops(n, d + 1, passes)
    )


def cardiac_patients() -> Contest | None:
    """Missing values, which an IterativeImputer fills in for the rivals; None where there are no data."""
    if (data := cardiac()) is None:
        return None
    X, y = data

    def imputed(classifier: Any) -> Fit:
        return lambda: iterative_imputer.make(make_pipeline(StandardScaler(), classifier)).fit(X, y)

    makers = {SVC: linear_svc.make, LOGISTIC: logistic_regression.make, TUNED: logistic_regression.make_cv}
    return Contest(lambda: VBSVC().fit(X, y), {name: imputed(make()) for name, make in makers.items()})


REAL: dict[str, Callable[[], Contest | None]] = {"toenail": toenail, "spam": spam, "cardiac": cardiac_patients}


def fewest_flops(n: int, p: int, passes: int) -> float:
    """Flops that these passes need at least; the module says how they are counted."""
    if p > n:
        return n * (n + 1) * p + passes * n**3
    return passes * (2 * n * p * (p + 1) + 2 / 3 * p**3)


def measure(contest: Contest, turns: int, *, exact: bool) -> Result:
    """Costs of all contenders of a cell, with a product of matrices among them."""
    ours = {OURS: contest.ours}
    if exact and contest.exact is not None:
        ours[EXACT] = contest.exact
    A = np.random.default_rng(0).standard_normal((PEAK_SIZE, PEAK_SIZE))
    rivals = {name: fit for name, fit in contest.rivals.items() if not isinstance(fit, str)}
    with rivals_may_not_converge():
        warnings.simplefilter("ignore", FutureWarning)  # of LogisticRegressionCV, whose defaults will change
        passes = {name: count_passes(fit()) for name, fit in ours.items()}
        costs = least_costs(ours | rivals | {DGEMM: lambda: A @ A}, turns)
    left_out = {name: why for name, why in contest.rivals.items() if isinstance(why, str)}
    flops = {} if contest.flops is None else {name: contest.flops(count) for name, count in passes.items()}
    return Result(costs, passes, flops, left_out)


def count_passes(fitted: Any) -> int:
    """Passes over the rows, of all classes together."""
    return sum(fit.history.passes for fit in (fitted.fit_ if isinstance(fitted, VBSVC) else (fitted,)))


def lines(name: str, result: Result, peak: float) -> list[list[str]]:
    """A line of the table for each of our fits."""
    found = []
    for ours, passes in result.passes.items():
        cost = result.costs[ours]
        line = [name if ours == OURS else f"{name}, exact", str(passes), f"{1e3 * cost.wall:.2f}"]
        line.append(f"{1e3 * cost.cpu:.2f}")
        if ours in result.flops:
            seconds = result.flops[ours] / peak
            line += [f"{1e3 * seconds:.3f}", f"{cost.wall / seconds:.1f}"]
        else:
            line += ["-", "-"]
        for rival in RIVALS:
            if rival in result.costs:
                other = result.costs[rival]
                if rival == GPBOOST:
                    other = other.least(result.costs[GPBOOST_ALONE])
                line += [f"{cost.wall / other.wall:.2f}", f"{cost.cpu / other.cpu:.2f}"]
            else:
                line += [result.left_out.get(rival, "-"), "-"]
        found.append(line)
    return found


def read_cells(text: str) -> list[str]:
    """Names of cells: rows x columns, rows x columns x classes, or a data set."""
    names = [name.strip() for name in text.split(",")]
    for name in names:
        if name not in REAL and not re.fullmatch(r"\d+x\d+(x\d+)?", name):
            known = ", ".join(REAL)
            raise argparse.ArgumentTypeError(f"{name!r} is no cell: give sizes such as 200x10 or 5000x50x5, or {known}")
    return names


def run(cells: Sequence[str], turns: int, *, exact: bool) -> None:
    """Measure the cells one after another, and print the table at the end."""
    results = {}
    for name in cells:
        contest = REAL[name]() if name in REAL else simulated(*map(int, name.split("x")))
        if contest is not None:
            results[name] = measure(contest, turns, exact=exact)
            wall = ", ".join(f"{who} {1e3 * cost.wall:.2f}" for who, cost in results[name].costs.items())
            print(f"{name}: {wall} ms", file=sys.stderr, flush=True)
    if not results:
        return
    peak = 2 * PEAK_SIZE**3 / min(result.costs[DGEMM].wall for result in results.values())
    print(f"\nOne untuned fit, least of {turns} turns: time of vbsvm / time of the rival, by the clock and by CPU time")
    print(f"dgemm: {peak / 1e9:.1f} Gflop/s; {TUNED} up to {MOST_TUNED_CELLS} rows × columns × classes")
    header = ["", "passes", "ms", "CPU ms", "floor ms", "ms / floor"]
    for rival in RIVALS:
        header += [f"/ {rival}", "CPU"]
    print_table(header, [line for name, result in results.items() for line in lines(name, result, peak)])
    if GPBOOST in results.get("toenail", NOTHING).costs:
        print("toenail: the better of GPBoost's default and one thread")
    if "spam" in results:
        print("spam: VBSVC(prior=LaplaceZero()); rivals have an L1 penalty, on standardised inputs")
    if "cardiac" in results:
        print("cardiac: rivals have an IterativeImputer and a StandardScaler before them")


def main(arguments: list[str]) -> None:
    """Print one table of all cells."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks untuned", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="two turns of a few cells")
    parser.add_argument("--cells", type=read_cells, help="such as 200x10,5000x50x5,toenail (default: all)")
    parser.add_argument("--turns", type=int, help="turns of each contender (default: 7)")
    parser.add_argument("--exact", action="store_true", help="the exact bound too")
    parser.add_argument("--busy", action="store_true", help="beside a process that keeps one core busy")
    options = parser.parse_args(arguments)
    cells = options.cells or (QUICK if options.quick else [*SIZES, *REAL])
    with busy_core() if options.busy else contextlib.nullcontext():
        run(cells, options.turns or (2 if options.quick else 7), exact=options.exact)
