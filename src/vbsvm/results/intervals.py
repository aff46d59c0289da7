"""Intervals of coefficients: four kinds for different questions, and which of them is shown unless it is said.

- "robust": confidence intervals, by the sandwich estimator; by groups where there are some.
- "posterior": what the posterior of the pseudo-likelihood says; by linear response, or by draws.
- "curvature": the posterior's curvature at the mean, with scales held.
- "mean-field": the distribution that a variational fit ended with.
"""

from dataclasses import dataclass, field, replace
from typing import Protocol, cast, final

import numpy as np
from scipy.special import ndtr, ndtri, stdtr, stdtrit

from vbsvm.base.arrays import Array
from vbsvm.base.user_warnings import ReliabilityWarning, warn_user
from vbsvm.inference.covariance import KINDS, CovarianceEstimate, Reliability
from vbsvm.inference.sandwich import Units
from vbsvm.model.interfaces import CoefficientDistribution
from vbsvm.model.layouts.drawn import DrawnGaussian
from vbsvm.results.posterior import Posterior
from vbsvm.results.words import Words, beside_posterior, of_kind

ROBUST, POSTERIOR, CURVATURE, MEAN_FIELD = KINDS
# Covariances of more columns than this are not written out: only their curvature at the mean is learned.
MOST_WRITTEN = 2000


class Intervals(Protocol):
    """What tables and figures ask of a spread; a ``Posterior`` is one."""

    @property
    def words(self) -> Words:
        """What tables, figures and reports say of it."""
        ...

    @property
    def variances(self) -> Array:
        """Variances of the coefficients."""
        ...

    @property
    def covariance(self) -> Array:
        """Covariance of the coefficients."""
        ...

    @property
    def signs(self) -> Array:
        """Probabilities that coefficients are positive."""
        ...

    def quantiles(self, chance: float) -> Array:
        """Quantiles of the coefficients."""
        ...

    def combination(self, t: Array, chances: list[float]) -> tuple[float, list[float], float]:
        """Standard deviation and quantiles of tᵀθ, and the probability that it is positive."""
        ...


@final
@dataclass(frozen=True, eq=False)
class NormalIntervals:
    """Around the coefficients of a fit, by a covariance; of Student's t where few groups determine it."""

    mean: Array
    covariance: Array
    words: Words
    degrees: float = np.inf
    between: Array | None = None  # the part of the covariance that missing values cause

    def _quantile(self, chance: float) -> float:
        return float(stdtrit(self.degrees, chance)) if np.isfinite(self.degrees) else float(ndtri(chance))

    def _below(self, value: Array) -> Array:
        return stdtr(self.degrees, value) if np.isfinite(self.degrees) else ndtr(value)

    @property
    def variances(self) -> Array:
        """Diagonal of the covariance."""
        return self.covariance.diagonal()

    @property
    def _sd(self) -> Array:
        return np.sqrt(self.variances)

    @property
    def signs(self) -> Array:
        """By that distribution."""
        certain = np.where(self.mean == 0.0, 0.0, np.copysign(np.inf, self.mean))
        return self._below(np.divide(self.mean, self._sd, out=certain, where=self._sd > 0))

    def quantiles(self, chance: float) -> Array:
        """By that distribution."""
        return self.mean + self._quantile(chance) * self._sd

    def combination(self, t: Array, chances: list[float]) -> tuple[float, list[float], float]:
        """By the distribution of tᵀθ."""
        mean, sd = float(t @ self.mean), float(np.sqrt(max(t @ self.covariance @ t, 0.0)))
        quantiles = [mean + self._quantile(chance) * sd for chance in chances]
        return sd, quantiles, float(self._below(np.array(mean / sd))) if sd > 0 else 0.5


@final
@dataclass(frozen=True, eq=False)
class LearnedSpreads:
    """Covariances of a fit that have been learned from its rows: what a file holds of them.

    ``curvature`` is the distribution by the curvature at the mean, in the layout of the fit, and ``reliability`` what
    the rows say of all of them.
    """

    learned: tuple[CovarianceEstimate, ...] = ()
    curvature: CoefficientDistribution | None = None
    reliability: Reliability | None = None

    def known(self, kind: str) -> CovarianceEstimate | None:
        """The spread of a kind, if it has been learned."""
        return next((one for one in self.learned if one.kind == kind), None)


class Learning(Protocol):
    """Rows at hand, from which spreads are learned; ``TrainingRows`` are."""

    def spread(self, kind: str) -> CovarianceEstimate:
        """The spread of a kind."""
        ...

    @property
    def learned(self) -> tuple[CovarianceEstimate, ...]:
        """Covariances that have been asked for."""
        ...

    @property
    def curvature(self) -> CoefficientDistribution:
        """The distribution by the curvature at the mean."""
        ...

    @property
    def reliability(self) -> Reliability:
        """What the rows say of spreads."""
        ...

    @property
    def units(self) -> Units | None:
        """The independent units of a model with groups."""
        ...

    @property
    def imputes(self) -> bool:
        """Whether robust spreads can be had although values are missing."""
        ...

    @property
    def responds(self) -> bool:
        """Whether the response of the exact bound is worth its cost, as it is not in large tables."""
        ...


@final
@dataclass(frozen=True, eq=False)
class SpreadShelf:
    """Intervals of a fit by kind: those that it holds, and those that it learns from its rows."""

    posterior: Posterior
    known: LearnedSpreads
    rows: Learning | None
    factors: tuple[str, ...] = ()
    _found: dict[str, Intervals] = field(default_factory=dict)
    _told: list[str] = field(default_factory=list)

    @property
    def on_the_margin(self) -> str:
        """What is wrong where many observations of a hinge fit lie on the margin; empty where few do."""
        if self.posterior.words.normalised:
            return ""
        found = self.known.reliability if self.rows is None else self.rows.reliability
        return "" if found is None else found.on_the_margin

    def warn_of_margin(self, whose: str = "") -> None:
        """Warn if many observations lie on the margin, the first time that it is asked for."""
        if not self._told:
            self._told.append(self.on_the_margin)
            if self._told[0]:
                warn_user(f"{whose}{self._told[0]}", ReliabilityWarning)

    @property
    def default(self) -> str:
        """The posterior's where it says what it seems to say, else the robust one, as far as these can be had.

        A likelihood has such a posterior, and a pseudo-likelihood has not. Older files have the mean field's only.
        """
        if self.posterior.by_draws or (self.posterior.words.normalised and self._has_posterior):
            return POSTERIOR
        if self.posterior.words.normalised and self.posterior.state.missing is None and self._has_curvature:
            return CURVATURE
        held = self.known.known(ROBUST)
        if self._suits_robust and (self.rows is not None or (held is not None and held.covariance is not None)):
            return ROBUST
        return CURVATURE if self._has_curvature else MEAN_FIELD

    @property
    def _has_curvature(self) -> bool:
        return self.rows is not None or self.known.curvature is not None

    @property
    def _has_posterior(self) -> bool:
        """Whether the posterior's spread is at hand, or worth its cost; the response of gates is not trusted."""
        state = self.posterior.state
        if state.missing is not None or state.gates is not None or not self._written:
            return False
        found = self.known.known(POSTERIOR)
        if found is None and self.rows is not None and self.rows.responds:
            found = self.rows.spread(POSTERIOR)
        return found is not None and found.covariance is not None

    @property
    def _suits_robust(self) -> bool:
        units = None if self.rows is None else self.rows.units
        imputed = self.rows is None or self.rows.imputes
        plain = self.posterior.state.gates is None and (self.posterior.state.missing is None or imputed)
        return plain and self._written and (units is None or units.n_units > 1)

    @property
    def _written(self) -> bool:
        drawn = isinstance(self.posterior.state.coefficients, DrawnGaussian)
        return len(self.posterior.mean) <= MOST_WRITTEN and not drawn

    def intervals(self, kind: str | None) -> Intervals:
        """Intervals of a kind, or of the default one."""
        kind = self.default if kind is None else kind
        if not isinstance(kind, str) or kind not in KINDS:
            raise ValueError(f"covariance must be one of {', '.join(map(repr, KINDS))}; got {kind!r}.")
        if kind not in self._found:
            self._found[kind] = self._make(kind)
        return self._found[kind]

    @property
    def of_scores(self) -> Posterior:
        """The posterior whose spread scores of rows have: by the curvature, which covers effects of groups too."""
        if self.posterior.by_draws or (self.rows is None and self.known.curvature is None):
            return self.posterior
        found = self.intervals(CURVATURE)
        return cast(Posterior, found)

    def _make(self, kind: str) -> Intervals:
        draws = self.posterior.by_draws
        if draws and kind in (CURVATURE, MEAN_FIELD):
            raise ValueError(f"covariance={kind!r} is only available after variational Bayes; this fit was sampled.")
        if kind == (POSTERIOR if draws else MEAN_FIELD):
            return self.posterior
        if kind == CURVATURE:
            distribution, told = self.known.curvature, self.known.reliability
            if distribution is None:
                rows = self._require_rows(kind)
                distribution, told = rows.curvature, rows.reliability
            rough = self.posterior.state.missing is not None and not self.posterior.words.exact
            words = of_kind(kind, self.posterior.words, told, missing=rough)
            return self.posterior.with_spread(distribution, words)
        if not self._written:
            raise ValueError(
                f"covariance={kind!r} is available for up to {MOST_WRITTEN} coefficients, and there are "
                f"{len(self.posterior.mean)}: use covariance='curvature'."
            )
        spread = self.known.known(kind) or self._require_rows(kind).spread(kind)
        if spread.covariance is None:
            raise ValueError(f"covariance={kind!r} is not available for this fit. {spread.reliability.warnings[-1]}")
        clusters = None if spread.unit is None else self.factors[spread.unit]
        rest = {"clusters": clusters, "by": spread.by, "missing": spread.between is not None}
        words = of_kind(kind, self.posterior.words, spread.reliability, **rest)
        if kind == ROBUST and (draws or self.rows is not None or self.known.known(POSTERIOR) is not None):
            words = beside_posterior(words)
        return NormalIntervals(self.posterior.mean, spread.covariance, words, spread.degrees, spread.between)

    def _require_rows(self, kind: str) -> Learning:
        if self.rows is None:
            raise ValueError(
                f"covariance={kind!r} is learned from the training data, which this fit no longer holds: ask for it "
                "before the model is saved, and the file will have it."
            )
        return self.rows

    def log_variances(self) -> dict[str, float]:
        """Standard deviations of log σ² by the response of the bound; none where it is not available."""
        known = self.known.known(POSTERIOR)
        if known is None and self.rows is not None and self._responds:
            known = self.rows.spread(POSTERIOR)
        return {} if known is None else known.log_variances

    @property
    def _responds(self) -> bool:
        """Whether the default is by the response of the exact bound, which costs too much in large tables."""
        if self.default == POSTERIOR:
            return True
        return self.default == ROBUST and self.rows is not None and self.rows.spread(ROBUST).by == "response"

    def settled(self) -> LearnedSpreads:
        """What a file is to hold: all that has been learned, and what tables show by default."""
        if self.rows is None:
            return self.known
        if self.posterior.by_draws:
            return replace(self.known, learned=self.rows.learned)
        self.intervals(None)
        if self._responds:  # then the posterior's costs nothing more
            self.rows.spread(POSTERIOR)
        return LearnedSpreads(self.rows.learned, self.rows.curvature, self.rows.reliability)
