"""What spreads and probabilities cost beside the fit that they belong to: CPU time, minima over rounds."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from benchmarks.simulation import simulate_overlapping
from benchmarks.tables import print_table
from benchmarks.timing import least_costs
from vbsvm import VBSVC, Variational
from vbsvm.base.update_mode import mean_field
from vbsvm.inference.covariance.kinds import Covariances
from vbsvm.model.sweep import pass_rows
from vbsvm.results.fit import Fit

ROWS, COLUMNS = 5000, 50


def afresh(fit: Fit) -> Fit:
    """The same fit, which has learned nothing of its rows yet."""
    assert fit._rows is not None
    return replace(fit, _rows=replace(fit._rows, _found={}))


def calls(n: int, d: int) -> dict[str, Callable[[], Any]]:
    """A fit, a pass, and what may be asked for afterwards."""
    X, y = simulate_overlapping(n, d)
    fit = VBSVC().fit(X, y).fit_[0]
    rows = fit._rows
    assert rows is not None
    spec, state = replace(fit.spec, likelihood=fit.outcome.likelihood), fit.outcome.state

    def sandwich(by: str) -> Any:
        return Covariances(spec, state, rows.source, rows.n).of("robust", by)

    return {
        "fit": lambda: VBSVC().fit(X, y),
        "fit, exact bound": lambda: VBSVC(inference=Variational(bound="exact")).fit(X, y),
        "a pass": lambda: pass_rows(spec, state, rows.source, mean_field, with_curvature=True),
        'summary(covariance="curvature")': lambda: afresh(fit).summary(covariance="curvature"),
        "robust by the curvature": lambda: sandwich("curvature"),
        "robust by the response": lambda: sandwich("response"),
        'summary(covariance="posterior")': lambda: afresh(fit).summary(covariance="posterior"),
        "what the first predict_proba learns": lambda: afresh(fit)._link,
    }


def run(rounds: int, n: int = ROWS, d: int = COLUMNS) -> None:
    """Print one table."""
    costs = {name: cost.cpu for name, cost in least_costs(calls(n, d), rounds).items()}
    rows = [
        [name, f"{1e3 * cpu:.1f}", f"{cpu / costs['fit']:.2f}", f"{cpu / costs['a pass']:.1f}"]
        for name, cpu in costs.items()
    ]
    print(f"\nCPU time at {n} x {d}, least of {rounds} rounds")
    print_table(["", "ms", "/ fit", "/ pass"], rows)
