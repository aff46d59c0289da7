"""Gibbs sampling: the same sweep with every conditional replaced by a draw from it (Appendices A, B and C)."""

import math
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial, reduce
from pathlib import Path
from typing import Any, final

import numpy as np

from vbsvm.base.arrays import Array, single_threaded_blas
from vbsvm.base.distributions import MIDPOINTS, ScaleDraws
from vbsvm.base.settings import Parameters, check_flag, check_whole
from vbsvm.base.update_mode import Draw, OverRelaxed, UpdateMode
from vbsvm.inference.chains import Chain, Drawn, Run, read_checkpoint, run_rounds
from vbsvm.missing.categories import LevelCounts, LevelDistributions
from vbsvm.missing.distributions import InputSums
from vbsvm.missing.model import MissingState, MissingSums, input_model
from vbsvm.model.interfaces import PointDistribution, SampledCoefficients
from vbsvm.model.likelihoods.base import Likelihood
from vbsvm.model.row_pass import Part, Source, add_optional
from vbsvm.model.spec import Spec, State
from vbsvm.model.sweep import sweep, update_priors

# What all chains may hold, draws and missing values of the last sweep: two gigabytes of float64.
MOST_NUMBERS = 2**28
MOST_CHAINS = 10_000
# Sweeps that are discarded unless it is said: the paper's number, and that where chains start around a variational fit.
TUNE, WARM_TUNE = 5000, 1000
# How far apart chains start, in standard deviations of mean field, which are about half of the posterior's.
OVERDISPERSION = 4.0
FIRST_STEP = 0.2
# A step is adapted while tuning, towards the best acceptance rate of moves along one direction.
ACCEPTANCE = 0.44
# In a fingerprint of the data, how far places of rows lie apart that have the same place in neighbouring blocks.
PLACES = 2**20
# If a larger proportion of draws separates the classes, the posterior is nearly improper.
ZERO_LOSS = 0.5


@final
@dataclass(frozen=True, eq=False)
class Sample:
    """Draws of the chains. Arrays are chains × draws × numbers.

    ``coefficients`` are zero if excluded, ``gates`` are the 0/1 indicators, ``scales`` has for each block its
    variance or its covariance matrix laid out flat. ``inputs`` and ``levels`` are means over draws. ``zero_loss`` is
    the proportion of draws that separate the classes.
    """

    coefficients: Array
    gates: Array | None
    scales: tuple[Array, ...]
    sweeps: int
    interrupted: bool
    zero_loss: float
    acceptance: float
    inputs: InputSums | None
    levels: LevelCounts | None
    last: State

    @property
    def passes(self) -> int:
        """Sweeps of each chain, tuning included."""
        return self.sweeps

    @property
    def separable(self) -> bool:
        """Whether most draws separate the classes, so that the posterior is nearly improper."""
        return self.zero_loss > ZERO_LOSS

    @property
    def flat(self) -> Array:
        """Draws of all chains, stacked."""
        return self.coefficients.reshape(-1, self.coefficients.shape[2])

    @property
    def state(self) -> State:
        """Posterior means, and the draws as a distribution of the coefficients, for predictions."""
        sizes = (math.isqrt(values.shape[2]) for values in self.scales)
        scales = [ScaleDraws(values.reshape(-1, q, q)) for values, q in zip(self.scales, sizes, strict=True)]
        levels = (
            None
            if self.levels is None
            else LevelDistributions.from_concentrations(tuple(1.0 + one for one in self.levels.counts))
        )
        missing = self.last.missing
        if isinstance(missing, MissingState):
            missing = replace(missing, levels=levels, values=None)
        return State(SampledCoefficients(self.flat), tuple(scales), None, missing)

    def without_values(self) -> "Sample":
        """Copy without the last draws of missing values, which have the size of the data."""
        missing = self.last.missing
        return self if missing is None else replace(self, last=replace(self.last, missing=missing.without_values()))


@final
@dataclass(frozen=True)
class Gibbs(Parameters):
    """Gibbs sampling: draws from the posterior, or that of a pseudo-likelihood, exact up to Monte Carlo error.

    If predictors are missing, it is a cut posterior: missing values are drawn from the distribution of the predictors,
    with labels among its regressors, and do not adapt to the coefficients; see ``GaussianImputation(labels=…)``.

    Parameters
    ----------
    draws : int, default 5000
        Number of sweeps of each chain after tuning, of which every ``thin``-th is kept.
    tune : int, default None
        Number of sweeps discarded before. None is 1000 if chains start around a variational fit, that is, without
        ``LaplaceZero``, missing values and correlated slopes, and else 5000.
    chains : int, default 4
        Number of independent chains, run in parallel processes if that saves time; with ``LaplaceZero``, every other
        chain starts without any predictor.
    thin : int, default 1
        Keep every ``thin``-th draw.
    checkpoint : path, default None
        File to which the chains are written periodically. A run that finds it resumes from there, with the same draws
        as without interruption; a finished run removes it.
    accelerate : bool, default True
        Over-relax the coefficients, and rescale them together with their scales once in each sweep: the same posterior
        in fewer sweeps. False gives the samplers exactly as printed in the paper.
    """

    draws: int = 5000
    tune: int | None = None
    chains: int = 4
    thin: int = 1
    checkpoint: str | os.PathLike[str] | None = None
    accelerate: bool = True

    def __post_init__(self) -> None:
        """Check the settings."""
        check_flag("Gibbs", accelerate=self.accelerate)
        check_whole("Gibbs", 1, 10**9, draws=self.draws, thin=self.thin)
        if self.tune is not None:
            check_whole("Gibbs", 0, 10**9, tune=self.tune)
        check_whole("Gibbs", 1, MOST_CHAINS, chains=self.chains)
        if self.checkpoint is not None and (not isinstance(self.checkpoint, str | os.PathLike) or not self.checkpoint):
            raise TypeError(f"Gibbs: checkpoint must be a path or None; got {self.checkpoint!r}.")

    @property
    def kept(self) -> int:
        """Draws kept of each chain."""
        return -(-int(self.draws) // int(self.thin))

    @property
    def sweeps(self) -> int:
        """Sweeps of each chain, tuning included."""
        return self.n_tune() + int(self.draws)

    def n_tune(self, *, warm: bool = False) -> int:
        """Number of discarded sweeps; fewer with a warm start from a variational fit."""
        return (WARM_TUNE if warm else TUNE) if self.tune is None else int(self.tune)

    def suits_warm_start(self, spec: Spec) -> bool:
        """Whether chains start around a variational fit: not with indicators, missing values or covariances."""
        plain = spec.gate_map is None and spec.missing is None
        return self.accelerate and plain and not any(block.prior.of_groups for block in spec.blocks)

    def run(self, spec: Spec, source: Source, seed: int = 0, around: State | None = None) -> Sample:
        """Draw from the posterior; Ctrl-C ends after the round and keeps what has been drawn.

        Chains start ``around`` a variational state, further apart than the posterior is wide, or at the paper's start.
        """
        return self.run_several([(spec, source)], seed, None if around is None else [around])[0]

    def run_several(
        self, models: Sequence[tuple[Spec, Source]], seed: int = 0, around: Sequence[State] | None = None
    ) -> list[Sample]:
        """Draw for several models, all of them round by round, so that Ctrl-C finds draws of each."""
        settings = replace(self, tune=self.n_tune(warm=around is not None))
        settings.require_room(models)
        path = None if settings.checkpoint is None else os.fspath(settings.checkpoint)
        runs = [
            _start(
                settings if len(models) == 1 or path is None else replace(settings, checkpoint=f"{path}.{k}"),
                spec,
                source,
                seed + k,
                around[k] if around else None,
            )
            for k, (spec, source) in enumerate(models)
        ]
        with single_threaded_blas():  # once for all rounds
            runs, interrupted = run_rounds(runs, settings.sweeps)
        if not all(run.chains[0].draws for run in runs):
            raise KeyboardInterrupt
        return [_sample(run.chains, run.done, interrupted) for run in runs]

    def require_room(self, models: Sequence[tuple[Spec, Source]]) -> None:
        """Raise if draws and missing values of all chains exceed the memory limit."""
        blocks = [block for spec, _ in models for block in spec.blocks]
        a_draw = sum(spec.n_columns for spec, _ in models) + sum(b.n_gates + len(b.columns) ** 2 for b in blocks)
        chains = int(self.chains)
        missing = chains * sum(
            source.n_rows * len(inputs.inputs.variables)
            for spec, source in models
            if (inputs := input_model(spec.missing)) is not None
        )
        size = chains * self.kept * a_draw + missing
        if size <= MOST_NUMBERS:
            return
        max_cached = (MOST_NUMBERS - missing) // (chains * a_draw)
        advice = f"thin={-(-int(self.draws) // max_cached)}" if max_cached > 0 else "fewer chains"
        raise ValueError(
            f"Gibbs: {chains} chains of {self.kept} draws of {a_draw} numbers"
            f"{', with the missing values of each chain,' if missing else ''} "
            f"would take {size * 8 / 2**30:.3g} gigabytes; up to {MOST_NUMBERS * 8 / 2**30:.0f} are supported. Use "
            f"{advice}."
        )


def _first(spec: Spec, seed: int, number: int, around: State | None) -> Chain:
    """Start overdispersed around a variational state, or by default; indicators start at 1 or 0 in turn."""
    opened = 1.0 if number % 2 == 0 else 0.0
    state = spec.start(opened) if around is None else _overdispersed(spec, around, Draw(seed, number, 0))
    return Chain(seed, number, state, FIRST_STEP)


def _overdispersed(spec: Spec, around: State, draw: Draw) -> State:
    """Overdispersed start: a draw further from the mean than the posterior is wide, and scales drawn given it."""
    mean = around.coefficients.mean
    draws = draw(around.gaussian, "start")
    theta = PointDistribution(mean + OVERDISPERSION * (draws.mean - mean))
    return update_priors(
        spec, around.with_coefficients(theta), lambda distribution, *site: draw(distribution, "start", *site)
    )


def _start(settings: Gibbs, spec: Spec, source: Source, seed: int, around: State | None) -> Run:
    """Start a run, or resume it from its checkpoint."""
    about = _about(settings, spec, source, seed)
    chains = [_first(spec, seed, k, around) for k in range(settings.chains)]
    if settings.checkpoint is not None and (checkpoint := read_checkpoint(settings.checkpoint, about)) is not None:
        chains = [Chain(*content) for content in checkpoint]
    elsewhere = None if source.rows_resident else False  # rows on remote workers are not sent to processes
    advance = partial(_advance, spec, source, settings)
    return Run(advance, chains, settings.sweeps, settings.checkpoint, about, elsewhere)


def _about(settings: Gibbs, spec: Spec, source: Source, seed: int) -> dict[str, object]:
    """Identity of a run for its checkpoint: settings, model, and a fingerprint of the data."""
    if settings.checkpoint is None:
        return {}
    if not Path(settings.checkpoint).absolute().parent.is_dir():
        raise FileNotFoundError(f"Gibbs: there is no directory for the checkpoint {os.fspath(settings.checkpoint)}.")
    theta = np.sin(1.0 + np.arange(spec.n_columns))
    sums = [float(f"{value:.9e}") for value in source.sum_parts(lambda part: _fingerprint(part, theta))]
    blocks = [f"{block.name}: {block.prior!r}, {block.size}" for block in spec.blocks]
    if (inputs := input_model(spec.missing)) is not None:
        blocks.append(repr(inputs.settings))
    numbers = {name: int(getattr(settings, name)) for name in ("draws", "chains", "thin", "accelerate")}
    numbers["tune"] = settings.n_tune()
    return {"settings": numbers, "seed": seed, "model": blocks, "data": sums[:5], "order of the rows": sums[5:]}


def _fingerprint(part: Part, theta: Array) -> Array:
    """Fingerprint of data: sums over rows, and sums weighted by position, which depend on the order."""
    scores, signs, s = part.scores(theta, None), part.rows.y, part.rows.weights
    places = np.arange(len(s)) if part.row_index is None else part.row_index
    by_place = s * np.cos(1.0 + part.rows.index * PLACES + places)
    plain = [s.sum(), s @ signs, s @ scores, s @ np.square(scores), (s * signs) @ scores]
    return np.array([*plain, by_place @ signs, by_place @ scores])


def _advance(spec: Spec, source: Source, settings: Gibbs, until: tuple[Chain, int]) -> Chain:
    """Sweep a chain to the end of the round."""
    chain, end = until
    state, step, kept, tune, moves = chain.state, chain.step, [], settings.n_tune(), settings.accelerate
    n, zero, n_accepted = chain.losses
    missing = chain.missing
    with single_threaded_blas(), np.errstate(all="ignore"):
        for k in range(chain.done, end):
            draw = Draw(chain.seed, chain.number, k)
            mode = OverRelaxed(draw, state.coefficients.mean) if moves else draw
            state, stats = sweep(spec, state, source, mode)
            accepted = False
            if moves:
                state, accepted = stretch(spec, state, source, step, mode)
            if k < tune:
                step = min(max(step * math.exp((float(accepted) - ACCEPTANCE) / math.sqrt(k + 1.0)), 1e-3), 2.0)
            elif (k - tune) % settings.thin == 0:
                kept.append(_numbers(state))
                # The row term at a point is −2 Σ s h₊: the pass tells the loss of the draw before this one.
                n, zero, n_accepted = n + 1, zero + int(stats.row_bound == 0.0), n_accepted + int(accepted)
                if stats.missing is not None:
                    missing = add_optional(missing, replace(stats.missing, values={}))
    draws = chain.draws
    if kept:
        thetas, gates, scales = zip(*kept, strict=True)
        blocks = tuple(np.array(values).reshape(len(kept), -1) for values in zip(*scales, strict=True))
        draws = (*draws, (np.array(thetas), None if gates[0] is None else np.array(gates), blocks))
    losses = n, zero, n_accepted
    return replace(chain, state=state, step=step, done=end, draws=draws, losses=losses, missing=missing)


def _numbers(state: State) -> tuple[Array, Array | None, list[Array]]:
    """Effective coefficients, indicators, and of each block the variance or covariance matrix."""
    theta, gates = state.coefficients.mean, None
    if state.gates is not None:
        theta, gates = state.gates.by_coefficient * theta, state.gates.inclusion
    return theta, gates, [scale.values_at(MIDPOINTS[:1])[0] for scale in state.scales]


def _sample(chains: list[Chain], sweeps: int, interrupted: bool) -> Sample:
    length = min(sum(len(piece[0]) for piece in chain.draws) for chain in chains)

    def stack(pick: Callable[[Drawn], Any]) -> Array:
        return np.stack([np.concatenate([pick(piece) for piece in chain.draws])[:length] for chain in chains])

    gates = None if chains[0].draws[0][1] is None else stack(lambda piece: piece[1])
    scales = tuple(stack(lambda piece, j=j: piece[2][j]) for j in range(len(chains[0].draws[0][2])))
    draws, zero, n_accepted = (sum(chain.losses[i] for chain in chains) for i in range(3))
    missing = reduce(add_optional, (chain.missing for chain in chains)) or MissingSums()
    return Sample(
        stack(lambda piece: piece[0]),
        gates,
        scales,
        sweeps,
        interrupted,
        zero / max(draws, 1),
        n_accepted / max(draws, 1),
        None if missing.inputs is None else missing.inputs.divided(draws),
        None if missing.levels is None else missing.levels.divided(draws),
        chains[0].state,
    )


@final
@dataclass(frozen=True, slots=True)
class Proposal:
    """Proposed factor g with log g ~ N(0, step²), and log of the uniform number for the Metropolis rule."""

    step: float
    g: float = 1.0
    log_uniform: float = 0.0

    def draw(self, rng: np.random.Generator) -> "Proposal":
        """Draw the factor and the uniform number."""
        return Proposal(self.step, math.exp(self.step * rng.standard_normal()), math.log(rng.random()))


def stretch(spec: Spec, state: State, source: Source, step: float, mode: UpdateMode) -> tuple[State, bool]:
    """Metropolis step θ → gθ with every σ² → g²σ²; return the state and whether the proposal was accepted."""
    proposal: Proposal = mode(Proposal(step), "stretch")
    g, theta = proposal.g, state.coefficients.mean
    effective = theta if state.gates is None else state.gates.by_coefficient * theta
    ratio, scales = source.sum_parts(lambda part: _change(spec.likelihood, part, state, effective, g, mode)), []
    for block, scale, moments in zip(spec.blocks, state.scales, spec.moments(state), strict=True):
        stretched, part = block.prior.rescale(scale, moments, g)
        scales.append(stretched)
        ratio += part
    if not proposal.log_uniform < ratio:
        return state, False
    return State(PointDistribution(g * theta), tuple(scales), state.gates, state.missing), True


def _change(likelihood: Likelihood, part: Part, state: State, theta: Array, g: float, mode: UpdateMode) -> float:
    """Change of the log likelihood, latent variables integrated out."""
    margin = part.rows.y * part.scores(theta, state.missing)
    before, after = likelihood.log_likelihood(margin), likelihood.log_likelihood(g * margin)
    return part.likelihood_change(before, after, state.missing, mode)
