"""Simulation-based calibration: the truth must rank uniformly among draws from its own posterior.

The logistic likelihood is normalised over labels, the hinge's pseudo-likelihood is not. With the latter parameters are
drawn from their prior *times* the row's normalising sums, e^{−2(1−f)₊} + e^{−2(1+f)₊}, by rejection, and labels from
the normalised pair. Without the tilt a correct sampler fails: that is the negative control.
"""

from dataclasses import dataclass, replace

import numpy as np
from joblib import Parallel, delayed
from scipy import special, stats

from incomplete_models import PAPER
from models import unscaled
from vbsvm import LaplaceZero, Normal, NotAtRandom, Ridge
from vbsvm.base.polya_gamma import PolyaGamma
from vbsvm.base.update_mode import Draw, OverRelaxed
from vbsvm.design.candidates import Candidates
from vbsvm.inference.gibbs import stretch
from vbsvm.missing.categories import LevelCounts, LevelModel
from vbsvm.missing.model import InputModel, MissingModel
from vbsvm.missing.rows import Inputs
from vbsvm.model.likelihoods.hinge import HINGE
from vbsvm.model.spec import Block, Spec
from vbsvm.model.sweep import sweep
from vbsvm.sources.memory import Memory
from vbsvm.sources.rows import Grouping, MissingInputs

# Scales are small enough that the tilt matters, and large enough that rejection ends.
N_ROWS, DRAWS, TUNE, THIN = 8, 19, 25, 6
SHAPE, RATE, RHO, VARIANCE = 3.0, 0.8, 0.4, 0.4
PSI, NU, MEAN_VARIANCE, SHARE = 1.0, 5.0, 0.5, 0.35
# Models with a category that may be missing; in the second one the other input may be too.
CATEGORICAL, MISSING = ("categories", "both"), -1


@dataclass(frozen=True)
class Truth:
    """Parameters, rows and labels of one replicate; ``ranked`` are the numbers whose ranks are looked at.

    ``levels`` are the rows' groups, or the levels of their category.
    """

    ranked: np.ndarray
    X: np.ndarray
    y: np.ndarray
    levels: np.ndarray


def logsumexp_by_row(f):
    """Logarithm of each row's normalising sum over both labels, less its largest value."""
    both = np.logaddexp(-2 * np.maximum(1 - f, 0), -2 * np.maximum(1 + f, 0))
    return both - np.log1p(np.exp(-4.0))


def simulate(model, rng, tilted, likelihood=HINGE):
    """Draw from the prior, tilted where the likelihood is not normalised, and the rows' normalised labels."""
    while True:
        scale = RATE / rng.gamma(SHAPE)
        beta = rng.normal(0, VARIANCE**0.5)
        levels = np.arange(N_ROWS) % 3
        X, theta = rng.normal(size=(N_ROWS, 2)), rng.normal(0, scale**0.5, size=2)
        ranked = [beta, *theta, scale]
        if model == "groups":
            theta = rng.normal(0, VARIANCE**0.5, size=2)
            effects = rng.normal(0, scale**0.5, size=3)
            f = beta + X @ theta + effects[levels]
            ranked = [beta, *theta, effects[0], scale]
        elif model == "gates":
            slab = 0.5 / rng.gamma(1.0, size=2)
            v = rng.normal(0, np.sqrt(scale / slab))
            gates = rng.random(2) < RHO
            f = beta + X @ (gates * v)
            ranked = [beta, *(gates * v), scale]
        elif model in ("missing", "selective"):
            Sigma = stats.invwishart.rvs(NU, PSI * np.eye(2), random_state=rng)
            mean = rng.normal(0, MEAN_VARIANCE**0.5, size=2)
            X = rng.multivariate_normal(mean, Sigma, size=N_ROWS)
            f = beta + X @ theta
            phi = rng.normal(size=2)
            ranked = [beta, *theta, scale, *((mean[0], Sigma[0, 1]) if model == "missing" else phi)]
        elif model in CATEGORICAL:
            chances = rng.dirichlet(np.ones(2))
            levels = (rng.random(N_ROWS) < chances[1]).astype(int)
            mean, spread = rng.normal(0, MEAN_VARIANCE**0.5), PSI / rng.chisquare(NU)
            X = np.column_stack([rng.normal(mean, spread**0.5, size=N_ROWS), levels])
            f = beta + X @ theta
            ranked = [beta, *theta, scale, chances[0], *((mean,) if model == "both" else ())]
        else:
            f = beta + X @ theta
        if not tilted or likelihood.normalised or np.log(rng.random()) < logsumexp_by_row(f).sum():
            break
    odds = likelihood.log_likelihood(f) - likelihood.log_likelihood(-f)
    y = np.where(rng.random(N_ROWS) < 1 / (1 + np.exp(-odds)), 1.0, -1.0)
    if model == "missing":
        X = np.where(rng.random(X.shape) < SHARE, np.nan, X)
    if model == "selective":
        lost = rng.random(N_ROWS) < special.ndtr(-phi[0] - phi[1] * X[:, 0])
        X[lost, 0] = np.nan
    if model in CATEGORICAL:
        levels = np.where(rng.random(N_ROWS) < SHARE, MISSING, levels)
        X[:, 0] = np.where((rng.random(N_ROWS) < SHARE) & (model == "both"), np.nan, X[:, 0])
    return Truth(np.array(ranked), X, y, levels)


def build(model, truth):
    """Spec and rows, with the priors that the truth was drawn from."""
    if model in CATEGORICAL:
        return build_categorical(truth, incomplete=model == "both")
    source = Memory(truth.X, truth.y, np.ones(N_ROWS), unscaled(2))
    intercept = Block("intercept", (slice(0, 1),), Normal(VARIANCE))
    if model == "groups":
        fixed = Block("fixed", (slice(0, 3),), Normal(VARIANCE))
        source = replace(source, groupings=(Grouping(truth.levels, 3, (0,)),))
        return Spec((fixed, Block("groups", (slice(3, 6),), Ridge(SHAPE, RATE)))), source
    prior = LaplaceZero(rho=RHO, shape=SHAPE, rate=RATE) if model == "gates" else Ridge(SHAPE, RATE)
    spec = Spec((intercept, Block("inputs", (slice(1, 3),), prior, prior.gate_of(["a", "b"]))))
    if model in ("missing", "selective"):
        inputs, mechanism = Inputs.from_lists([1, 2], []), NotAtRandom(variance=1.0) if model == "selective" else None
        settings = replace(PAPER, psi=PSI, nu=NU, variance=MEAN_VARIANCE, joint=True, mechanism=mechanism)
        probit_of = np.array([0]) if model == "selective" else None
        spec = replace(spec, missing=MissingModel(InputModel(settings, inputs, 2, probit_of)))
        source = replace(
            source, missing_inputs=MissingInputs(inputs, np.empty((N_ROWS, 0)), np.zeros(2), np.empty((N_ROWS, 0)))
        )
    return spec, source


def build_categorical(truth, incomplete):
    """A row whose category is missing stands there once for each level; the other input may be missing too."""
    lost = truth.levels == MISSING
    row = np.repeat(np.arange(N_ROWS), np.where(lost, 2, 1))
    turn = np.r_[0, (row[1:] == row[:-1]).astype(int)]
    X, codes = truth.X[row], np.where(lost[row], turn, ~0)
    X[:, 1] = np.where(lost[row], turn, X[:, 1])
    counts = LevelCounts((np.bincount(truth.levels[~lost], minlength=2).astype(float),))
    recipe, candidates = unscaled(2), Candidates(row, codes[:, None])
    source = Memory(X, truth.y[row], np.ones(len(X)), recipe, candidates=candidates, known_levels=counts)
    intercept = Block("intercept", (slice(0, 1),), Normal(VARIANCE))
    missing = MissingModel(levels=LevelModel((2,)))
    if incomplete:
        inputs = Inputs.from_lists([1], [])
        settings = replace(PAPER, psi=PSI, nu=NU, variance=MEAN_VARIANCE, joint=True)
        missing = replace(missing, inputs=InputModel(settings, inputs, 1))
        source = replace(
            source, missing_inputs=MissingInputs(inputs, np.empty((len(X), 0)), np.zeros(1), np.empty((len(X), 0)))
        )
    return Spec((intercept, Block("inputs", (slice(1, 3),), Ridge(SHAPE, RATE))), missing), source


def numbers(model, state):
    """The ranked numbers of a draw."""
    theta = state.coefficients.mean
    theta = theta if state.gates is None else state.gates.by_coefficient * theta
    if model == "groups":
        return [*theta[:4], state.scales[1].value]
    scale = state.scales[1].variance.value if model == "gates" else state.scales[1].value
    if model == "selective":
        return [*theta, scale, *state.missing.inputs.probit.mean[0]]
    if model in CATEGORICAL:
        return [
            *theta,
            scale,
            np.exp(state.missing.levels.logs[0][0]),
            *(state.missing.inputs.mean if model == "both" else ()),
        ]
    if model == "missing":
        return [*theta, scale, state.missing.inputs.mean[0], state.missing.inputs.covariance.value[0, 1]]
    return [*theta, scale]


def rank(model, seed, replicate, tilted=True, plant=None, likelihood=HINGE, thin=THIN):
    """Ranks of the truth among thinned draws; ties (closed gates) are broken at random."""
    rng = np.random.default_rng([seed, replicate])
    truth = simulate(model, rng, tilted, likelihood)
    spec, source = build(model, truth)
    spec = replace(spec, likelihood=likelihood)
    state, drawn = spec.start(), []
    with np.errstate(all="ignore"):
        for k in range(TUNE + DRAWS * thin):
            mode = OverRelaxed(Draw(seed, replicate, k), state.coefficients.mean)
            if plant is not None:
                mode = plant(mode)
            state, _ = sweep(spec, state, source, mode)
            state, _ = stretch(spec, state, source, 0.5, mode)
            if k >= TUNE and (k - TUNE) % thin == thin - 1:
                drawn.append(numbers(model, state))
    below, equal = (np.array(drawn) < truth.ranked).sum(axis=0), (np.array(drawn) == truth.ranked).sum(axis=0)
    return below + rng.integers(0, equal + 1)


def p_values(model, replicates, seed=0, tilted=True, plant=None, n_jobs=1, likelihood=HINGE, thin=THIN):
    """χ² tests of uniform ranks, one for each number."""
    work = (delayed(rank)(model, seed, k, tilted, plant, likelihood, thin) for k in range(replicates))
    ranks = np.array(Parallel(n_jobs=n_jobs)(work))
    bins = 5 if replicates < 1000 else DRAWS + 1
    found = []
    for column in ranks.T:
        counts = np.bincount(column * bins // (DRAWS + 1), minlength=bins)
        found.append(stats.chisquare(counts).pvalue)
    return np.array(found)


@dataclass(frozen=True)
class Narrow:
    """A reading whose coefficients are drawn with a spread that is wrong by a factor."""

    mode: Draw
    factor: float
    site: str = "coefficients"

    def __call__(self, distribution, *site):
        point = self.mode(distribution, *site)
        if site[0] != self.site:
            return point
        return replace(point, mean=distribution.mean + self.factor * (point.mean - distribution.mean))


@dataclass(frozen=True)
class Bent:
    """A reading that changes a distribution before it is drawn from."""

    mode: Draw
    name: str

    def __call__(self, distribution, *site):
        return self.mode(MISTAKES[self.name](distribution, site), *site)


def _shape(distribution, site):
    return (
        replace(distribution, shape=distribution.shape - 0.5)
        if type(distribution).__name__ == "InverseGamma"
        else distribution
    )


def _rate(distribution, site):
    return (
        replace(distribution, rate=0.7 * distribution.rate)
        if type(distribution).__name__ == "InverseGamma"
        else distribution
    )


def _latent(distribution, site):
    if site[0] != "rows":
        return distribution
    if isinstance(distribution, PolyaGamma):
        return replace(distribution, s=1.4 * distribution.s)
    return replace(distribution, root=1.3 * distribution.root)


def _odds(distribution, site):
    return (
        replace(distribution, prior_log_odds=distribution.prior_log_odds + 0.7) if site[0] == "gates" else distribution
    )


def _dropped_one(distribution, site):
    """The coefficients' distribution with half of the right side: of a hinge Cᵀ(wy) in place of Cᵀ((1 + w)y)."""
    return distribution.with_mean(0.5 * distribution.mean) if site[0] == "coefficients" else distribution


def _move(distribution, site):
    return distribution if site[0] != "stretch" else _Pushed(distribution)


def _wishart(distribution, site):
    return (
        replace(distribution, degrees=distribution.degrees - 2.0)
        if site[:2] == ("inputs", "covariance")
        else distribution
    )


def _centre(distribution, site):
    return replace(distribution, mean=0.6 * distribution.mean) if site[:2] == ("inputs", "mean") else distribution


@dataclass(frozen=True)
class _Pushed:
    """A proposal that is judged too kindly where it stretches."""

    distribution: object

    def draw(self, rng):
        drawn = self.distribution.draw(rng)
        return replace(drawn, log_uniform=drawn.log_uniform - 3.0 * np.log(drawn.g))


MISTAKES = {
    "shape by a half": _shape,
    "rate": _rate,
    "latent scale": _latent,
    "prior odds": _odds,
    "dropped one": _dropped_one,
    "power of g": _move,
    "degrees": _wishart,
    "mean of the inputs": _centre,
}


SPREADS = {"spread": 0.8, "spread by 5 %": 0.95}


@dataclass(frozen=True)
class Plant:
    """Wraps the reading of each sweep; an object that other processes can have."""

    name: str

    def __call__(self, mode):
        return Narrow(mode, SPREADS[self.name]) if self.name in SPREADS else Bent(mode, self.name)
