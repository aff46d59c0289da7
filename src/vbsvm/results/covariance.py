"""Covariance of the coefficients in tables and figures, and intervals by it.

- "robust": confidence intervals by the sandwich estimator, clustered on the grouping factor if any.
- "posterior": that of the posterior of the (pseudo-)likelihood, by linear response or draws.
- "curvature": the posterior's curvature at the mean, with scales fixed.
- "mean-field": the distribution that a variational fit ended with.

``default_kind`` chooses, ``covariance`` computes. A loaded fit has what was computed before it was saved.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, final

import numpy as np
from scipy.special import stdtr, stdtrit

from vbsvm.base.arrays import Array
from vbsvm.base.printing import ReliabilityWarning, warn_user
from vbsvm.inference.covariance.kinds import KINDS, CovarianceEstimate, Reliability
from vbsvm.model.interfaces import CoefficientDistribution
from vbsvm.model.layouts.drawn import DrawnGaussian
from vbsvm.results.notes import Notes, beside_posterior, of_kind
from vbsvm.results.posterior import MeanField, Posterior
from vbsvm.results.training_rows import TrainingRows

if TYPE_CHECKING:
    from vbsvm.results.fit import Fit

ROBUST, POSTERIOR, CURVATURE, MEAN_FIELD = KINDS
# Covariances of more columns than this are not formed: only the curvature at the mean is computed.
MAX_COLUMNS = 2000


@final
@dataclass(frozen=True, eq=False)
class NormalIntervals:
    """Normal intervals of the coefficients from a covariance; Student's t intervals if it rests on few groups."""

    mean: Array
    covariance: Array
    notes: Notes
    degrees: float = np.inf
    between: Array | None = None  # the part of the covariance that missing values cause

    @property
    def variances(self) -> Array:
        """Diagonal of the covariance."""
        return self.covariance.diagonal()

    @property
    def _sd(self) -> Array:
        return np.sqrt(self.variances)

    @property
    def sign_probabilities(self) -> Array:
        """Probabilities that coefficients are positive."""
        certain = np.where(self.mean == 0.0, 0.0, np.copysign(np.inf, self.mean))
        return stdtr(self.degrees, np.divide(self.mean, self._sd, out=certain, where=self._sd > 0))

    def quantiles(self, chance: float) -> Array:
        """Quantiles of the coefficients."""
        return self.mean + stdtrit(self.degrees, chance) * self._sd

    def combination(self, t: Array, chances: list[float]) -> tuple[float, list[float], float]:
        """Standard deviation and quantiles of tᵀθ, and the probability that it is positive."""
        mean, sd = float(t @ self.mean), float(np.sqrt(max(t @ self.covariance @ t, 0.0)))
        quantiles = [mean + float(stdtrit(self.degrees, chance)) * sd for chance in chances]
        return sd, quantiles, float(stdtr(self.degrees, mean / sd)) if sd > 0 else 0.5


# What tables and figures ask for variances, quantiles, and notes.
Intervals = Posterior | NormalIntervals


@final
@dataclass(frozen=True, eq=False)
class LearnedCovariances:
    """Covariances computed from the training rows, as they are stored in files.

    ``curvature`` is the normal distribution by the curvature at the mean, in the layout of the fit; ``reliability``
    holds warnings that apply to all of them.
    """

    learned: tuple[CovarianceEstimate, ...] = ()
    curvature: CoefficientDistribution | None = None
    reliability: Reliability | None = None


def default_kind(fit: "Fit") -> str:
    """Default kind of covariance: that of the first row of ``DEFAULTS`` whose condition the fit meets."""
    return next(kind for kind, suits in DEFAULTS if suits(fit))


def _has_posterior(fit: "Fit") -> bool:
    """Whether the posterior covariance is stored or affordable; not with indicators, whose response is unreliable."""
    state = fit.posterior.state
    if state.missing is not None or state.gates is not None or not _can_form(fit):
        return False
    estimate = _stored_estimate(fit, POSTERIOR)
    if estimate is None and fit._rows is not None and fit._rows.affords_response:
        estimate = fit._rows.covariance(POSTERIOR)
    return estimate is not None and estimate.covariance is not None


def _has_robust(fit: "Fit") -> bool:
    rows, state = fit._rows, fit.posterior.state
    if state.gates is not None or not _can_form(fit):
        return False
    if rows is None:
        estimate = _stored_estimate(fit, ROBUST)
        return estimate is not None and estimate.covariance is not None
    return (state.missing is None or rows.imputable) and (rows.units is None or rows.units.n_units > 1)


def _has_curvature(fit: "Fit") -> bool:
    return fit._rows is not None or (fit.spreads is not None and fit.spreads.curvature is not None)


# The posterior's with a normalised likelihood, else the robust one, as far as they are available. A likelihood has
# such a posterior, and a pseudo-likelihood has not. Older files have mean-field covariances only.
DEFAULTS: "tuple[tuple[str, Callable[[Fit], bool]], ...]" = (
    (POSTERIOR, lambda fit: fit.posterior.by_draws or (fit.spec.likelihood.normalised and _has_posterior(fit))),
    (
        CURVATURE,
        lambda fit: fit.spec.likelihood.normalised and fit.posterior.state.missing is None and _has_curvature(fit),
    ),
    (ROBUST, _has_robust),
    (CURVATURE, _has_curvature),
    (MEAN_FIELD, lambda _: True),
)


def _can_form(fit: "Fit") -> bool:
    """Whether a covariance matrix can be formed: there are not too many columns."""
    drawn = isinstance(fit.posterior.state.coefficients, DrawnGaussian)
    return len(fit.posterior.mean) <= MAX_COLUMNS and not drawn


def _stored_estimate(fit: "Fit", kind: str) -> CovarianceEstimate | None:
    """The stored estimate of a kind, computed before the fit was saved, or None."""
    estimates = () if fit.spreads is None else fit.spreads.learned
    return next((estimate for estimate in estimates if estimate.kind == kind), None)


def covariance(fit: "Fit", kind: str | None = None) -> Intervals:
    """Covariance and intervals of the coefficients, of a kind or of the default one; cached on the fit by kind."""
    warn_of_margin(fit)
    kind = fit._shown if kind is None else kind
    kind = default_kind(fit) if kind is None else kind
    if not isinstance(kind, str) or kind not in KINDS:
        raise ValueError(f"covariance must be one of {', '.join(map(repr, KINDS))}; got {kind!r}.")
    if kind not in fit._covariances:
        fit._covariances[kind] = _compute(fit, kind)
    return fit._covariances[kind]


def _compute(fit: "Fit", kind: str) -> Intervals:
    posterior = fit.posterior
    if posterior.by_draws and kind in (CURVATURE, MEAN_FIELD):
        raise ValueError(f"covariance={kind!r} is only available for variational fits; this fit was sampled.")
    if kind == (POSTERIOR if posterior.by_draws else MEAN_FIELD):
        return posterior
    if kind == CURVATURE:
        return _by_curvature(fit)
    if not _can_form(fit):
        raise ValueError(
            f"covariance={kind!r} is available for up to {MAX_COLUMNS} coefficients, and there are "
            f"{len(posterior.mean)}: use covariance='curvature'."
        )
    estimate = _stored_estimate(fit, kind) or _training_rows(fit, kind).covariance(kind)
    if estimate.covariance is None:
        raise ValueError(f"covariance={kind!r} is not available for this fit. {estimate.reliability.warnings[-1]}")
    clusters = None if estimate.unit is None else fit.plan.factors[estimate.unit].name
    missing = estimate.between is not None
    notes = _notes(fit, kind, estimate.reliability, clusters=clusters, by=estimate.by, missing=missing)
    if kind == ROBUST and (posterior.by_draws or fit._rows is not None or _stored_estimate(fit, POSTERIOR) is not None):
        notes = beside_posterior(notes)
    return NormalIntervals(posterior.mean, estimate.covariance, notes, estimate.degrees, estimate.between)


def _by_curvature(fit: "Fit") -> MeanField:
    posterior, stored = fit.posterior, fit.spreads or LearnedCovariances()
    assert isinstance(posterior, MeanField)
    distribution, reliability = stored.curvature, stored.reliability
    if distribution is None:
        rows = _training_rows(fit, CURVATURE)
        distribution, reliability = rows.curvature, rows.reliability
    rough = posterior.state.missing is not None and not (posterior.outcome.exact or posterior.outcome.integrated)
    return posterior.with_covariance(distribution, _notes(fit, CURVATURE, reliability, missing=rough))


def _notes(fit: "Fit", kind: str, reliability: Reliability | None, **facts: Any) -> Notes:
    warnings, normalised = () if reliability is None else reliability.warnings, fit.spec.likelihood.normalised
    return of_kind(kind, fit.posterior.notes, warnings, normalised=normalised, power=fit.likelihood_power, **facts)


def _training_rows(fit: "Fit", kind: str) -> TrainingRows:
    if fit._rows is None:
        raise ValueError(
            f"covariance={kind!r} needs the training data, which are not stored in saved models: call "
            "summary(covariance=…) before saving, and the file contains it."
        )
    return fit._rows


def score_posterior(fit: "Fit") -> Posterior:
    """Posterior for standard deviations of linear predictors: by the curvature, including random effects."""
    if fit.posterior.by_draws or not _has_curvature(fit):
        return fit.posterior
    if CURVATURE not in fit._covariances:
        fit._covariances[CURVATURE] = _by_curvature(fit)
    posterior = fit._covariances[CURVATURE]
    assert isinstance(posterior, MeanField)
    return posterior


def log_variances(fit: "Fit") -> dict[str, float]:
    """Standard deviations of log σ² by linear response; empty if not available."""
    estimate = _stored_estimate(fit, POSTERIOR)
    if estimate is None and fit._rows is not None and _uses_response(fit, fit._rows):
        estimate = fit._rows.covariance(POSTERIOR)
    return {} if estimate is None else estimate.log_variances


def _uses_response(fit: "Fit", rows: TrainingRows) -> bool:
    """Whether the default covariance uses the response of the exact bound, which is too costly for large tables."""
    kind = default_kind(fit)
    return kind == POSTERIOR or (kind == ROBUST and rows.covariance(ROBUST).by == "response")


def learned(fit: "Fit") -> LearnedCovariances:
    """Covariances to store in a file: all that have been computed, and the default one."""
    rows, stored = fit._rows, fit.spreads or LearnedCovariances()
    if rows is None:
        return stored
    if fit.posterior.by_draws:
        return replace(stored, learned=rows.learned)
    if default_kind(fit) == ROBUST:
        rows.covariance(ROBUST)
    if _uses_response(fit, rows):  # then the posterior's costs nothing more
        rows.covariance(POSTERIOR)
    return LearnedCovariances(rows.learned, rows.curvature, rows.reliability)


def margin_warning(fit: "Fit") -> str:
    """Warning that many observations of a hinge fit lie on the margin, or ""."""
    if fit.spec.likelihood.normalised:
        return ""
    stored = None if fit.spreads is None else fit.spreads.reliability
    reliability = stored if fit._rows is None else fit._rows.reliability
    return "" if reliability is None else reliability.on_the_margin


def warn_of_margin(fit: "Fit") -> None:
    """Warn once if many observations lie on the margin."""
    if "margin" not in fit._warned:
        fit._warned["margin"] = margin_warning(fit)
        if fit._warned["margin"]:
            whose = "" if fit.classes[0] is not None else f"{fit.classes[1]!s} against the rest: "
            warn_user(f"{whose}{fit._warned['margin']}", ReliabilityWarning)
