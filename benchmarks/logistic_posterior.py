"""Logistic mixed models beside long Gibbs runs of the same model: means, spreads and variance components.

Maximum likelihood by lme4 and GPBoost stands beside: it has no priors, and its estimates are not means.
"""

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy.special import expit, ndtri

from benchmarks.rivals import gpboost_glmm, lme4_glmer
from benchmarks.tables import print_table
from benchmarks.uncertainty_spreads import Case, Numbers, Reference, reference
from vbsvm import Gibbs, Model, Variational
from vbsvm.datasets import load_toenail
from vbsvm.results.fit import Fit

RESULTS = Path(__file__).parent / "results" / "logistic_gibbs"
LEVEL = 0.95
BOUNDS = ("augmented", "exact", "auto")
# Estimates, standard deviations, and standard deviations of effects, each by name.
Estimates = tuple[Numbers, Numbers, Numbers]


def intercepts(n_groups: int, size: int) -> pd.DataFrame:
    """Random intercepts with a standard deviation of 1.5; z is the same for all rows of a group."""
    rng = np.random.default_rng([n_groups, size])
    g = np.repeat(np.arange(n_groups), size)
    frame = pd.DataFrame({"x": rng.normal(size=len(g)), "z": rng.normal(size=n_groups)[g], "g": g})
    return _labelled(rng, frame, 1.5 * rng.normal(size=n_groups)[g])


def crossed(n: int = 1200, n_g: int = 40, n_h: int = 15) -> pd.DataFrame:
    """Rows that belong to a level of each of two factors at random."""
    rng = np.random.default_rng(1)
    frame = pd.DataFrame({"x": rng.normal(size=n), "z": rng.normal(size=n)})
    frame = frame.assign(g=rng.integers(0, n_g, n), h=rng.integers(0, n_h, n))
    return _labelled(rng, frame, 1.5 * rng.normal(size=n_g)[frame["g"]] + rng.normal(size=n_h)[frame["h"]])


def slopes(n_groups: int = 60, size: int = 10) -> pd.DataFrame:
    """Random intercepts and slopes of x, which are correlated."""
    rng = np.random.default_rng(2)
    g = np.repeat(np.arange(n_groups), size)
    frame = pd.DataFrame({"x": rng.normal(size=len(g)), "z": rng.normal(size=len(g)), "g": g})
    effects = rng.multivariate_normal([0, 0], [[1.5, 0.5], [0.5, 0.8]], size=n_groups)[g]
    return _labelled(rng, frame, effects[:, 0] + effects[:, 1] * frame["x"].to_numpy())


def _labelled(rng: np.random.Generator, frame: pd.DataFrame, effects: Any) -> pd.DataFrame:
    score = 0.3 + frame["x"] - 0.5 * frame["z"] + effects
    return frame.assign(y=(rng.random(len(frame)) < expit(score)).astype(int))


def models() -> dict[str, tuple[str, pd.DataFrame, int]]:
    """Formula, data, and draws of a chain, by name."""
    toenail = load_toenail()
    toenail = toenail.assign(
        y=(toenail["outcome"] == "moderate or severe").astype(int),
        treated=(toenail["treatment"] == "terbinafine").astype(int),
    )
    return {
        "toenail": ("y ~ visit * treated + (1 | patientID)", toenail, 10_000),
        "150 groups x 3": ("y ~ x + z + (1 | g)", intercepts(150, 3), 5000),
        "30 groups x 30": ("y ~ x + z + (1 | g)", intercepts(30, 30), 4000),
        "crossed": ("y ~ x + z + (1 | g) + (1 | h)", crossed(), 4000),
        "slopes": ("y ~ x + z + (x || g)", slopes(), 5000),
        "correlated slopes": ("y ~ x + z + (x | g)", slopes(), 5000),
    }


def _case(name: str, formula: str, data: pd.DataFrame, draws: int) -> Case:
    model = Model(formula, data, likelihood="logistic")

    def fit(inference: Variational | Gibbs, seed: int) -> Fit:
        return model.fit(inference, random_state=seed)

    return Case(name, name, fit, draws)


def ours(fit: Fit) -> Estimates:
    """Coefficients with the posterior's spread, as users see them."""
    table, components = fit.summary(covariance="posterior"), fit.variance_components(LEVEL)
    scales = {f"{term}, {effect}": float(one["std_dev"]) for (term, effect), one in components.iterrows()}
    return _numbers(table["estimate"]), _numbers(table["std_error"]), scales


def _numbers(column: pd.Series) -> Numbers:
    return {str(name): float(value) for name, value in column.items()}


def log_variance_sds(fit: Fit) -> Numbers:
    """Standard deviations of log σ², by the intervals of σ."""
    components = fit.variance_components(LEVEL)
    spread = np.log(components["upper"] / components["lower"]) / ndtri(0.5 + 0.5 * LEVEL)
    return {f"{term}, {effect}": float(value) for (term, effect), value in spread.items()}


def compare(name: str, formula: str, data: pd.DataFrame, draws: int) -> list[list[str]]:
    """Lines of one model: each bound, and the rivals that are there."""
    case = _case(name, formula, data, draws)
    known = reference(case, RESULTS)
    lines = []
    for bound in BOUNDS:
        fit = case.fit(Variational(bound=bound), 1)
        shown = f"{bound} (integrated)" if fit.outcome.integrated else bound
        lines.append([name, shown, *_cells(ours(fit), known), _spread(log_variance_sds(fit), known)])
    rivals: dict[str, Callable[[str, pd.DataFrame], Estimates | None]] = {
        "lme4, nAGQ = 25": lme4_glmer.estimates,
        "GPBoost": gpboost_glmm.estimates,
    }
    for rival, estimate in rivals.items():
        if (found := estimate(formula, data)) is not None:
            lines.append([name, rival, *_cells(found, known), "-"])
    return lines


def _cells(found: Estimates, known: Reference) -> list[str]:
    """Worst distance of a mean in Gibbs sds, and ranges of the ratios of sds and of σ."""
    means, sds, scales = found
    off = max(abs(means[name] - known.mean[name]) / known.sd[name] for name in known.mean)
    ratios = [sds[name] / known.sd[name] for name in known.sd if name in sds]
    return [f"{off:.3f}", _range(ratios), _range([scales[name] / known.scale[name] for name in known.scale])]


def _spread(found: Numbers, known: Reference) -> str:
    return _range([found[name] / known.log_variance_sd[name] for name in known.log_variance_sd])


def _range(values: list[float]) -> str:
    told = f"{min(values):.3f}" if values else "-"
    return told if len(values) < 2 else f"{told}–{max(values):.3f}"


def run(*, quick: bool) -> None:
    """Print one table."""
    chosen = models()
    if quick:
        chosen = {"30 groups x 30": (*chosen["30 groups x 30"][:2], 2000)}
    lines = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # chains that have not mixed are run again, with more draws
        for name, (formula, data, draws) in chosen.items():
            lines += compare(name, formula, data, draws)
    if lme4_glmer.missing() is not None:
        print(f"Left out: lme4 ({lme4_glmer.missing()}).")
    print("\nBeside Gibbs: means' largest distance in Gibbs sds; sds, σ (its median) and sds of log σ² as ratios")
    print_table(["", "", "means off", "sds", "σ", "sd of log σ²"], lines)
