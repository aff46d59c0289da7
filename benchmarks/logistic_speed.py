"""Time of one VBLogistic fit over that of one untuned LogisticRegression; of the toenail model over GPBoost's."""

from importlib.util import find_spec

import numpy as np

from benchmarks import groups
from benchmarks.methods import rivals_may_not_converge
from benchmarks.rivals import gpboost_glmm, logistic_regression
from benchmarks.simulation import simulate_overlapping
from benchmarks.tables import print_table
from benchmarks.timing import least_costs
from vbsvm import Model, Variational, VBLogistic

SIZES = ((200, 10), (1000, 10), (1000, 100), (5000, 50), (20_000, 20), (100_000, 10), (100_000, 50))
OURS, AUGMENTED, LOGISTIC = "VBLogistic", "augmented bound", "LogisticRegression"


def plain(rounds: int, sizes: tuple[tuple[int, int], ...]) -> None:
    """Print ratios of fits to simulated tables of two classes."""
    lines = []
    for n, d in sizes:
        X, y = simulate_overlapping(n, d)
        calls = {
            OURS: lambda X=X, y=y: VBLogistic().fit(X, y),
            AUGMENTED: lambda X=X, y=y: VBLogistic(inference=Variational(bound="augmented")).fit(X, y),
            LOGISTIC: lambda X=X, y=y: logistic_regression.make().fit(X, y),
        }
        with rivals_may_not_converge():
            costs = least_costs(calls, rounds)
        passes = VBLogistic().fit(X, y).n_iter_
        rival = costs[LOGISTIC]
        ratios = [f"{costs[name].wall / rival.wall:.2f}/{costs[name].cpu / rival.cpu:.2f}" for name in calls][:2]
        lines.append([f"{n} x {d}", f"{1e3 * costs[OURS].wall:.1f}", str(passes), *ratios])
    print("\nOne fit over one untuned LogisticRegression, by the clock / by CPU time")
    print_table(["", "ms", "passes", OURS, AUGMENTED], lines)


def toenail(rounds: int) -> None:
    """Print ratios of the mixed model to GPBoost's, whose design is built already, as is our model."""
    if find_spec("gpboost") is None:
        print("Left out: GPBoost (not installed).")
        return
    data = groups.toenail()
    model = Model(groups.FORMULA, data, likelihood="logistic")
    X = np.column_stack([np.ones(len(data)), data[groups.INPUTS].to_numpy()])
    y, patients = (data["outcome"] == "none or mild").to_numpy(dtype=float), data[groups.GROUP].to_numpy()
    calls = {
        "integrated": model.fit,
        "exact": lambda: model.fit(Variational(bound="exact")),
        "augmented": lambda: model.fit(Variational(bound="augmented")),
        "GPBoost": lambda: gpboost_glmm.fit(patients, X, y),
        "GPBoost, one thread": lambda: gpboost_glmm.fit(patients, X, y, threads=1),
    }
    costs = least_costs(calls, rounds)
    best = min(costs["GPBoost"].wall, costs["GPBoost, one thread"].wall)
    print("\nToenail with random intercepts, over GPBoost's better time")
    print_table(["", "ms", "ratio"], [[n, f"{1e3 * c.wall:.1f}", f"{c.wall / best:.2f}"] for n, c in costs.items()])


def run(*, quick: bool) -> None:
    """Print both tables."""
    plain(3 if quick else 10, SIZES[:3] if quick else SIZES)
    toenail(3 if quick else 10)
