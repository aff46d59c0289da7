"""Which covariance of the coefficients tables and figures show, and intervals by it.

- "robust": confidence intervals, by the sandwich estimator; by groups where there are some.
- "posterior": what the posterior of the (pseudo-)likelihood says; by linear response, or by draws.
- "curvature": the posterior's curvature at the mean, with scales fixed.
- "mean-field": the distribution that a variational fit ended with.

``default_kind`` chooses, ``covariance`` computes. A loaded fit has what was computed before it was saved.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, final

import numpy as np
from scipy.special import ndtr, ndtri, stdtr, stdtrit

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
    """Intervals around the coefficients of a fit, by a covariance; of Student's t where few groups determine it."""

    mean: Array
    covariance: Array
    notes: Notes
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
        """Probabilities that coefficients are positive."""
        certain = np.where(self.mean == 0.0, 0.0, np.copysign(np.inf, self.mean))
        return self._below(np.divide(self.mean, self._sd, out=certain, where=self._sd > 0))

    def quantiles(self, chance: float) -> Array:
        """Quantiles of the coefficients."""
        return self.mean + self._quantile(chance) * self._sd

    def combination(self, t: Array, chances: list[float]) -> tuple[float, list[float], float]:
        """Standard deviation and quantiles of tᵀθ, and the probability that it is positive."""
        mean, sd = float(t @ self.mean), float(np.sqrt(max(t @ self.covariance @ t, 0.0)))
        quantiles = [mean + self._quantile(chance) * sd for chance in chances]
        return sd, quantiles, float(self._below(np.array(mean / sd))) if sd > 0 else 0.5


# What tables and figures ask for variances, quantiles, and notes.
Intervals = Posterior | NormalIntervals


@final
@dataclass(frozen=True, eq=False)
class LearnedCovariances:
    """What a file holds of the covariances that were computed from the rows of a fit.

    ``curvature`` is the distribution by the curvature at the mean, in the layout of the fit, and ``reliability`` what
    the rows say of all of them.
    """

    learned: tuple[CovarianceEstimate, ...] = ()
    curvature: CoefficientDistribution | None = None
    reliability: Reliability | None = None


def default_kind(fit: "Fit") -> str:
    """The kind that tables show unless another is asked for: the first row of ``DEFAULTS`` that suits the fit."""
    return next(kind for kind, suits in DEFAULTS if suits(fit))


def _has_posterior(fit: "Fit") -> bool:
    """Whether the posterior's covariance is known, or worth its cost; the response of gates is not trusted."""
    state = fit.posterior.state
    if state.missing is not None or state.gates is not None or not _is_formed(fit):
        return False
    estimate = _known(fit, POSTERIOR)
    if estimate is None and fit._rows is not None and fit._rows.responds:
        estimate = fit._rows.covariance(POSTERIOR)
    return estimate is not None and estimate.covariance is not None


def _has_robust(fit: "Fit") -> bool:
    rows, state = fit._rows, fit.posterior.state
    if state.gates is not None or not _is_formed(fit):
        return False
    if rows is None:
        known = _known(fit, ROBUST)
        return known is not None and known.covariance is not None
    return (state.missing is None or rows.imputes) and (rows.units is None or rows.units.n_units > 1)


def _has_curvature(fit: "Fit") -> bool:
    return fit._rows is not None or (fit.spreads is not None and fit.spreads.curvature is not None)


# The posterior's where it says what it seems to say, else the robust one, as far as these can be had. A likelihood has
# such a posterior, and a pseudo-likelihood has not. Older files have the mean field's only.
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


def _is_formed(fit: "Fit") -> bool:
    """Whether a covariance can be formed."""
    drawn = isinstance(fit.posterior.state.coefficients, DrawnGaussian)
    return len(fit.posterior.mean) <= MAX_COLUMNS and not drawn


def _known(fit: "Fit", kind: str) -> CovarianceEstimate | None:
    """The estimate of a kind that was computed before the fit was saved."""
    known = () if fit.spreads is None else fit.spreads.learned
    return next((estimate for estimate in known if estimate.kind == kind), None)


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
        raise ValueError(f"covariance={kind!r} is only available after variational Bayes; this fit was sampled.")
    if kind == (POSTERIOR if posterior.by_draws else MEAN_FIELD):
        return posterior
    if kind == CURVATURE:
        return _by_curvature(fit)
    if not _is_formed(fit):
        raise ValueError(
            f"covariance={kind!r} is available for up to {MAX_COLUMNS} coefficients, and there are "
            f"{len(posterior.mean)}: use covariance='curvature'."
        )
    estimate = _known(fit, kind) or _require_rows(fit, kind).covariance(kind)
    if estimate.covariance is None:
        raise ValueError(f"covariance={kind!r} is not available for this fit. {estimate.reliability.warnings[-1]}")
    clusters = None if estimate.unit is None else fit.plan.factors[estimate.unit].name
    missing = estimate.between is not None
    notes = _notes(fit, kind, estimate.reliability, clusters=clusters, by=estimate.by, missing=missing)
    if kind == ROBUST and (posterior.by_draws or fit._rows is not None or _known(fit, POSTERIOR) is not None):
        notes = beside_posterior(notes)
    return NormalIntervals(posterior.mean, estimate.covariance, notes, estimate.degrees, estimate.between)


def _by_curvature(fit: "Fit") -> MeanField:
    posterior, known = fit.posterior, fit.spreads or LearnedCovariances()
    assert isinstance(posterior, MeanField)
    distribution, said = known.curvature, known.reliability
    if distribution is None:
        rows = _require_rows(fit, CURVATURE)
        distribution, said = rows.curvature, rows.reliability
    rough = posterior.state.missing is not None and not (posterior.outcome.exact or posterior.outcome.integrated)
    return posterior.with_covariance(distribution, _notes(fit, CURVATURE, said, missing=rough))


def _notes(
    fit: "Fit",
    kind: str,
    said: Reliability | None,
    *,
    clusters: str | None = None,
    by: str = "curvature",
    missing: bool = False,
) -> Notes:
    facts = {
        "normalised": fit.spec.likelihood.normalised,
        "power": fit.likelihood_power,
        "clusters": clusters,
        "by": by,
    }
    return of_kind(kind, fit.posterior.notes, () if said is None else said.warnings, missing=missing, **facts)


def _require_rows(fit: "Fit", kind: str) -> TrainingRows:
    if fit._rows is None:
        raise ValueError(
            f"covariance={kind!r} is learned from the training data, which this fit no longer holds: ask for it "
            "before the model is saved, and the file will have it."
        )
    return fit._rows


def score_posterior(fit: "Fit") -> Posterior:
    """The posterior that standard deviations of scores are of: by the curvature, which covers effects of groups too."""
    if fit.posterior.by_draws or not _has_curvature(fit):
        return fit.posterior
    if CURVATURE not in fit._covariances:
        fit._covariances[CURVATURE] = _by_curvature(fit)
    found = fit._covariances[CURVATURE]
    assert isinstance(found, MeanField)
    return found


def log_variances(fit: "Fit") -> dict[str, float]:
    """Standard deviations of log σ² by the response of the bound; none where it is not available."""
    known = _known(fit, POSTERIOR)
    if known is None and fit._rows is not None and _responds(fit, fit._rows):
        known = fit._rows.covariance(POSTERIOR)
    return {} if known is None else known.log_variances


def _responds(fit: "Fit", rows: TrainingRows) -> bool:
    """Whether the default is by the response of the exact bound, which costs too much in large tables."""
    kind = default_kind(fit)
    return kind == POSTERIOR or (kind == ROBUST and rows.covariance(ROBUST).by == "response")


def learned(fit: "Fit") -> LearnedCovariances:
    """What a file is to hold: all that has been computed, and what tables show by default."""
    rows, known = fit._rows, fit.spreads or LearnedCovariances()
    if rows is None:
        return known
    if fit.posterior.by_draws:
        return replace(known, learned=rows.learned)
    if default_kind(fit) == ROBUST:
        rows.covariance(ROBUST)
    if _responds(fit, rows):  # then the posterior's costs nothing more
        rows.covariance(POSTERIOR)
    return LearnedCovariances(rows.learned, rows.curvature, rows.reliability)


def margin_warning(fit: "Fit") -> str:
    """What is wrong where many observations of a hinge fit lie on the margin; empty where few do."""
    if fit.spec.likelihood.normalised:
        return ""
    known = None if fit.spreads is None else fit.spreads.reliability
    said = known if fit._rows is None else fit._rows.reliability
    return "" if said is None else said.on_the_margin


def warn_of_margin(fit: "Fit") -> None:
    """Warn if many observations lie on the margin, the first time that it is asked for."""
    if "margin" not in fit._told:
        fit._told["margin"] = margin_warning(fit)
        if fit._told["margin"]:
            whose = "" if fit.classes[0] is not None else f"{fit.classes[1]!s} against the rest: "
            warn_user(f"{whose}{fit._told['margin']}", ReliabilityWarning)
