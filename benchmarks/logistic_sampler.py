"""Gibbs with Pólya-Gamma weights beside NumPyro's NUTS: the same posterior of five small models."""

import warnings
from dataclasses import dataclass
from importlib.util import find_spec
from typing import final

import numpy as np
import pandas as pd
from scipy.special import expit

from benchmarks.rivals.numpyro_logistic import Effects, MissingInput, Problem, sample
from benchmarks.tables import print_table
from vbsvm import GaussianImputation, Gibbs, Model, Normal, Ridge
from vbsvm.base.diagnostics import Mixing

SHAPE, RATE, VARIANCE, FLAT = 2.0, 1.5, 4.0, 1e8
PSI, NU, MEAN_VARIANCE = 1.0, 4.0, 2.0
PRIOR = Ridge(SHAPE, RATE)


@final
@dataclass(frozen=True, eq=False)
class Pair:
    """The same model twice, and the names of our numbers in the order of theirs: coefficients, then scales."""

    model: Model
    problem: Problem


def pairs() -> dict[str, Pair]:
    """Weights; random intercepts; crossed ones; slopes beside intercepts; a missing input beside groups."""
    rng = np.random.default_rng(0)
    n = 160
    data = pd.DataFrame({"x": rng.normal(size=n), "z": rng.normal(size=n), "g": np.arange(n) % 16})
    data = data.assign(h=rng.integers(0, 6, n), w=rng.choice([0.5, 1.0, 2.0], n))
    score = 0.4 + data["x"] - 0.7 * data["z"] + (1 + 0.6 * data["x"]) * rng.normal(size=16)[data["g"]]
    data = data.assign(y=(rng.random(n) < expit(score + 0.8 * rng.normal(size=6)[data["h"]])).astype(int))
    lost = data.assign(x=data["x"].mask(rng.random(n) < 0.3))
    fixed, ones = {"x": Normal(VARIANCE), "z": Normal(VARIANCE)}, np.ones(n)
    by_g, by_h = (Effects(data[name].to_numpy(), ones, SHAPE, RATE) for name in "gh")
    slope = Effects(data["g"].to_numpy(), data["x"].to_numpy(), SHAPE, RATE)
    X = np.column_stack([ones, data["x"], data["z"]])
    y, variances = np.where(data["y"] == 1, 1.0, -1.0), np.array([FLAT, VARIANCE, VARIANCE])

    def model(formula: str, *terms: str, of: pd.DataFrame = data, **settings: object) -> Model:
        priors = fixed | dict.fromkeys(terms, PRIOR)
        return Model(formula, of, priors, standardize=False, likelihood="logistic", **settings)

    imputation = GaussianImputation(labels="likelihood", psi=PSI, nu=NU, variance=MEAN_VARIANCE, joint=True)
    without_z = Model(
        "y ~ x + (1 | g)",
        lost,
        {"x": Normal(VARIANCE), "(1 | g)": PRIOR},
        standardize=False,
        likelihood="logistic",
        imputation=imputation,
    )
    missing = MissingInput(1, MEAN_VARIANCE, 0.5 * NU, 0.5 * PSI)
    incomplete = Problem(
        np.column_stack([ones, lost["x"]]), y, ones, np.array([FLAT, VARIANCE]), (by_g,), missing=missing
    )
    return {
        "weights": Pair(
            Model("y ~ x + z", data, fixed, weights="w", standardize=False, likelihood="logistic"),
            Problem(X, y, data["w"].to_numpy(), variances),
        ),
        "intercepts": Pair(model("y ~ x + z + (1 | g)", "(1 | g)"), Problem(X, y, ones, variances, (by_g,))),
        "crossed": Pair(
            model("y ~ x + z + (1 | g) + (1 | h)", "(1 | g)", "(1 | h)"),
            Problem(X, y, ones, variances, (by_h, by_g)),  # the larger factor is the last of ours
        ),
        "slopes": Pair(
            model("y ~ x + z + (x || g)", "(1 | g)", "(0 + x | g)"),
            Problem(X, y, ones, variances, (by_g, slope)),
        ),
        "missing input, intercepts": Pair(without_z, incomplete),
    }


def compare(pair: Pair, draws: int) -> tuple[float, float, float, float]:
    """Largest |z| of means and largest ratio of sds (and its inverse), the largest R-hat, and fewest effective."""
    fit = pair.model.fit(Gibbs(draws=4 * draws, tune=draws, chains=4), random_state=1)
    ours = [one.draws for one in fit.traces.coefficients()]
    ours += [one.trace.draws for one in fit.traces.components() if "(" in one.term]
    found = sample(pair.problem, draws, draws // 2, 4, 1)
    fixed = found.pop("fixed")
    theirs = [fixed[:, :, j] for j in range(fixed.shape[2])] + [found[name] for name in sorted(found)]
    z, ratios, mixing = [], [], []
    for a, b in zip(ours, theirs, strict=True):
        one, other = Mixing.of(a), Mixing.of(b)
        error = np.hypot(a.std() / np.sqrt(one.ess_bulk), b.std() / np.sqrt(other.ess_bulk))
        z.append(abs(a.mean() - b.mean()) / error)
        ratios.append(a.std() / b.std())
        mixing += [one, other]
    worst = max(ratios, key=lambda ratio: abs(np.log(ratio)))
    return max(z), worst, max(one.rhat for one in mixing), min(one.ess_bulk for one in mixing)


def run(*, quick: bool) -> None:
    """Print one line for each model."""
    if find_spec("numpyro") is None:
        print("Left out: NUTS (numpyro is not installed).")
        return
    lines = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name, pair in pairs().items():
            z, ratio, rhat, ess = compare(pair, 500 if quick else 1500)
            lines.append([name, f"{z:.2f}", f"{ratio:.3f}", f"{rhat:.3f}", f"{ess:.0f}"])
            print(f"{name}: done", flush=True)
    print("\nGibbs beside NUTS: largest |z| of means, sd ratio furthest from 1, and how both have mixed")
    print_table(["", "|z|", "sd / NUTS sd", "R-hat", "fewest effective draws"], lines)
