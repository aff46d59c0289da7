"""Convergence of chains: rank-normalised split R̂ and effective sample sizes (Vehtari et al. 2021)."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import final

import numpy as np
from scipy.special import ndtri
from scipy.stats import rankdata

from vbsvm.base.arrays import Array

MAX_RHAT = 1.01
MIN_ESS = 400
# Shorter chains have no diagnostics.
MIN_DRAWS = 4


@final
@dataclass(frozen=True, slots=True)
class Mixing:
    """R̂ and effective sample sizes of one quantity; NaN if it is constant or chains are too short.

    A quantity that is constant within each chain, at different values, has an infinite R̂.
    """

    rhat: float = float("nan")
    ess_bulk: float = float("nan")
    ess_tail: float = float("nan")


def columns(mixings: Iterable[Mixing]) -> dict[str, Array]:
    """Columns ``rhat``, ``ess_bulk`` and ``ess_tail`` of a table, one row for each quantity."""
    numbers = np.array([(mixing.rhat, mixing.ess_bulk, mixing.ess_tail) for mixing in mixings]).reshape(-1, 3)
    return {"rhat": numbers[:, 0], "ess_bulk": numbers[:, 1], "ess_tail": numbers[:, 2]}


def rhat(draws: Array) -> float:
    """R̂ of one quantity, chains × draws: the larger of that of its ranks and of its distances from the median."""
    if _constant(draws):
        return float("nan")
    halves = _split(draws)
    folded = np.abs(halves - np.median(halves))
    return max(_rhat(_normal_scores(halves)), _rhat(_normal_scores(folded)))


def ess_bulk(draws: Array) -> float:
    """Bulk effective sample size."""
    return float("nan") if _constant(draws) else _ess(_normal_scores(_split(draws)))


def ess_tail(draws: Array) -> float:
    """Tail effective sample size: the smaller of those of the 5 % and 95 % quantiles."""
    if _constant(draws):
        return float("nan")
    return min(_ess(_split((draws <= np.quantile(draws, level)).astype(np.float64))) for level in (0.05, 0.95))


def _constant(draws: Array) -> bool:
    return draws.shape[1] < MIN_DRAWS or bool(np.ptp(draws) == 0) or not bool(np.isfinite(draws).all())


def _split(draws: Array) -> Array:
    half = draws.shape[1] // 2
    return np.concatenate([draws[:, :half], draws[:, -half:]])


def _normal_scores(draws: Array) -> Array:
    ranks = rankdata(draws, method="average").reshape(draws.shape)
    return ndtri((ranks - 0.375) / (draws.size + 0.25))


def _rhat(draws: Array) -> float:
    n = draws.shape[1]
    if not np.ptp(draws, axis=1).any():  # such as distances from the median of what is 0 and 1 equally often
        return float("inf") if np.ptp(draws) > 0 else 1.0
    within = draws.var(axis=1, ddof=1).mean()
    between = draws.mean(axis=1).var(ddof=1)
    return float(np.sqrt((n - 1) / n + between / within))


def _ess(draws: Array) -> float:
    """Effective sample size by Geyer's initial monotone sequence over the chains' mean autocovariances."""
    m, n = draws.shape
    if np.ptp(draws) == 0:
        return float(m * n)
    spectrum = np.fft.rfft(draws - draws.mean(axis=1, keepdims=True), 2 * n)
    covariances = np.fft.irfft(spectrum * np.conj(spectrum), 2 * n)[:, :n] / n
    within = covariances[:, 0].mean() * n / (n - 1)
    total = within * (n - 1) / n + (draws.mean(axis=1).var(ddof=1) if m > 1 else 0.0)
    rho = 1.0 - (within - covariances.mean(axis=0) * n / (n - 1)) / total
    rho[0] = 1.0
    pairs = rho[: n // 2 * 2].reshape(-1, 2).sum(axis=1)
    negative = np.flatnonzero(pairs < 0)
    pairs = pairs[: negative[0]] if len(negative) else pairs
    pairs = np.minimum.accumulate(pairs)
    time = max(-1.0 + 2.0 * pairs.sum(), 1.0 / np.log10(m * n))
    return float(m * n / time)
