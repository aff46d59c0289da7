"""Laplace-zero prior: each coefficient is zero, or has a Laplace distribution (paper, Section 3.2)."""

import math
import numbers
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar, Self, TypeGuard, final

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaln, digamma, logit

from vbsvm.base.arrays import Array
from vbsvm.base.distributions import InverseGamma, Latent, LatentPoint, Point
from vbsvm.base.settings import Parameters, check_positive, check_whole, is_number
from vbsvm.base.update_mode import UpdateMode
from vbsvm.model.priors.base import Moments, Prior
from vbsvm.model.priors.normal import fixed_point, rescale_variance

# Inclusion probabilities of each further start are a tenth of the last ones, so that many starts are all alike.
MAX_RESTARTS = 100
RHO = 0.01


@final
@dataclass(frozen=True)
class Beta(Parameters):
    """ρ ~ Beta(a, b): the proportion of included predictors is inferred.

    Parameters
    ----------
    a, b : float
        Prior counts of included and excluded predictors.
    """

    a: float = 1.0
    b: float = 1.0

    def __post_init__(self) -> None:
        """Check that the counts are positive."""
        check_positive("Beta", 1e-6, 1e9, a=self.a, b=self.b)


@final
@dataclass(frozen=True, slots=True)
class InclusionRate:
    """Distribution of ρ: Beta(a, b)."""

    a: float
    b: float

    @property
    def log_odds(self) -> float:
        """E logit ρ."""
        return float(digamma(self.a) - digamma(self.b))

    @property
    def log_out(self) -> float:
        """E log(1 − ρ)."""
        return float(digamma(self.b) - digamma(self.a + self.b))

    def draw(self, rng: np.random.Generator) -> "InclusionRatePoint":
        """Draw ρ."""
        return InclusionRatePoint(min(max(rng.beta(self.a, self.b), 1e-300), 1 - 1e-16))


@final
@dataclass(frozen=True, slots=True)
class InclusionRatePoint:
    """A drawn ρ."""

    value: float

    @property
    def log_odds(self) -> float:
        """Logit ρ."""
        return math.log(self.value) - math.log1p(-self.value)


@final
@dataclass(frozen=True, slots=True, eq=False)
class LaplaceZeroDistribution:
    """Distributions of σ², of each coefficient's b, and of ρ where it is inferred."""

    variance: InverseGamma | Point
    slab: Latent | LatentPoint
    share: InclusionRate | InclusionRatePoint | None

    @property
    def inverse_mean(self) -> float:
        """E[σ⁻²]."""
        return self.variance.inverse_mean

    def values_at(self, chances: Array) -> Array:
        """Quantiles of σ²."""
        return self.variance.values_at(chances)

    def pack(self) -> list[float]:
        """Log rates of σ², logs of E b, and logs of the Beta distribution's counts."""
        assert isinstance(self.slab, Latent)
        share = [] if not isinstance(self.share, InclusionRate) else [math.log(self.share.a), math.log(self.share.b)]
        return [*self.variance.pack(), *np.log(self.slab.root), *share]

    def unpack(self, numbers: Array) -> Self:
        """The distribution with these parameters: inverse of ``pack``."""
        assert isinstance(self.slab, Latent)
        begin, m = len(self.variance.pack()), len(self.slab.root)
        root = np.exp(np.clip(numbers[begin : begin + m], -300.0, 300.0))
        share = self.share
        if isinstance(share, InclusionRate):
            a, b = np.exp(np.clip(numbers[begin + m :], -300.0, 300.0))
            share = InclusionRate(float(a), float(b))
        return type(self)(self.variance.unpack(numbers[:begin]), Latent(self.slab.s, root), share)


@final
@dataclass(frozen=True)
class Factorised(Parameters):
    """Inclusion indicators independent of the coefficients, which are jointly normal: the paper's Algorithm 3."""


@final
@dataclass(frozen=True)
class Joint(Parameters):
    """Joint distributions of each inclusion indicator and its coefficient, independent between predictors."""


@final
@dataclass(frozen=True)
class LaplaceZero(Prior[LaplaceZeroDistribution]):
    """Spike-and-slab prior: γ v, where γ is 1 with probability ρ, else 0, and v is Laplace with an inferred scale.

    Algorithm 3 of the paper. ``inclusion_probability_`` is E γ of each predictor.

    Parameters
    ----------
    rho : float, sequence of floats, or Beta, default None
        Prior probability that a predictor is included: one number for all, one for each inclusion indicator, or
        ``Beta(a, b)`` to infer it. None is ``Beta(1, 20)`` under the hinge loss with a ``likelihood_power`` below 1,
        its default, and else 0.01.
    expected_size : float, default None
        Expected number of included predictors, or groups of them; instead of ``rho``, which is then left at None.
    shape, rate : float, default 0.01
        Shape and rate of the inverse-gamma prior of σ²; the paper's A_u and B_u.
    threshold : float, default 0.5
        Predictors with a larger inclusion probability are ``selected_``.
    restarts : int, default 0
        Number of further starts, up to 100, with lower inclusion probabilities than the first (½, 0.01, then a tenth
        of the last); the fit with the highest ELBO is kept.
    groups : sequence of sequences of column names or numbers, default ()
        Columns that are included together, such as the dummies of one factor. In a formula those of a term are.
    gates : Factorised or Joint, default Factorised()
        Variational distribution of inclusion indicators and coefficients: independent, or joint for each predictor.
    """

    in_words: ClassVar[str] = "zero, or Laplace with an inferred scale"

    rho: float | Sequence[float] | Beta | None = None
    expected_size: float | None = None
    shape: float = 0.01
    rate: float = 0.01
    threshold: float = 0.5
    restarts: int = 0
    groups: Sequence[Sequence[str | int]] = ()
    gates: Factorised | Joint = field(default_factory=Factorised)

    def __post_init__(self) -> None:
        """Check the settings."""
        check_positive("LaplaceZero", shape=self.shape, rate=self.rate)
        if self.rho is not None and not isinstance(self.rho, Beta):
            for share in np.atleast_1d(np.asarray(self.rho, dtype=object)):
                if not is_number(share) or not 0 < share < 1:
                    raise ValueError(f"LaplaceZero: rho must be between 0 and 1; got {share!r}.")
        if self.expected_size is not None:
            check_positive("LaplaceZero", expected_size=self.expected_size)
            if self.rho is not None and (not is_number(self.rho) or self.rho != RHO):  # files once had the default
                raise ValueError(
                    f"LaplaceZero: rho={self.rho!r} and expected_size={self.expected_size!r} both set the number of "
                    "included predictors: leave one of them at None."
                )
        if not _is_list(self.groups) or not all(_is_list(group) for group in self.groups):  # text is a list of letters
            raise ValueError(
                "LaplaceZero: groups must be a list of lists of columns, such as [['a', 'b'], ['c', 'd']]; got "
                f"{self.groups!r}."
            )
        check_whole("LaplaceZero", 0, MAX_RESTARTS, restarts=self.restarts)
        if not isinstance(self.gates, Factorised | Joint):
            raise ValueError(f"LaplaceZero: gates={self.gates!r} is neither Factorised() nor Joint().")
        if not is_number(self.threshold) or not 0 < self.threshold < 1:
            raise ValueError(f"LaplaceZero: threshold must be between 0 and 1; got {self.threshold!r}.")

    def gate_of(self, names: Sequence[str], terms: Sequence[int] | None = None) -> NDArray[np.intp]:
        """Indicator of each column, numbered in the order of the columns; several columns may have the same."""
        owner = np.arange(len(names)) if terms is None else np.asarray(terms)
        grouped: set[int] = set()
        for group in self.groups:
            columns = [_column_number(column, names) for column in group]
            if not columns or grouped & set(columns) or len(set(columns)) < len(columns):
                raise ValueError(f"LaplaceZero: the group {list(group)} is empty, or names a column twice.")
            grouped |= set(columns)
            owner[columns] = len(names) + columns[0]
        _, first, gate_of = np.unique(owner, return_index=True, return_inverse=True)
        gate_of = np.argsort(np.argsort(first))[gate_of].astype(np.intp)
        n_gates = len(first)
        if self.joint and n_gates < len(names):
            raise ValueError("LaplaceZero: Joint() does not support groups: use Factorised(), or leave groups out.")
        if self.expected_size is not None and not self.expected_size < n_gates:
            raise ValueError(f"LaplaceZero: expected_size must be below {n_gates}; got {self.expected_size:g}.")
        if self.rho is not None and not isinstance(self.rho, Beta) and np.size(self.rho) not in (1, n_gates):
            raise ValueError(f"LaplaceZero: rho has {np.size(self.rho)} values; 1 or {n_gates} are needed.")
        return gate_of

    @property
    def joint(self) -> bool:
        """Whether indicators and coefficients have a joint distribution."""
        return isinstance(self.gates, Joint)

    def starts(self) -> list[float]:
        """Inclusion probabilities of further starts: ½, 0.01, 0.001, …"""
        return [0.5, *(10.0 ** -(k + 2) for k in range(self.restarts))][: self.restarts]

    def start(self, width: int, size: int) -> LaplaceZeroDistribution:
        """E[σ⁻²] = 1 and E b = 1, the paper's start."""
        share = (
            InclusionRate(self.rho.a, self.rho.b) if isinstance(self.rho, Beta) and self.expected_size is None else None
        )
        return LaplaceZeroDistribution(Point(1.0), Latent(np.ones(size), np.ones(size)), share)

    def with_default_rho(self, rho: Beta) -> "LaplaceZero":
        """The same with this distribution of ρ, unless the user has set ρ or the expected size."""
        return replace(self, rho=rho) if self.rho is None and self.expected_size is None else self

    def _log_odds(self, n_gates: int) -> Array:
        rho: object = RHO if self.rho is None else self.rho
        if self.expected_size is not None:
            rho = self.expected_size / n_gates
        return np.broadcast_to(logit(np.asarray(rho, dtype=np.float64)), n_gates)

    def gate_log_odds(self, scale: LaplaceZeroDistribution, n_gates: int) -> Array:
        """E logit ρ of each indicator."""
        return self._log_odds(n_gates) if scale.share is None else np.full(n_gates, scale.share.log_odds)

    def precision(self, scale: LaplaceZeroDistribution) -> Array:
        """E[σ⁻²] E b of each coefficient."""
        return scale.inverse_mean * scale.slab.weight

    def update(self, scale: LaplaceZeroDistribution, moments: Moments, mode: UpdateMode) -> LaplaceZeroDistribution:
        """q(b_k), then q(σ²), then q(ρ); or draws (Algorithm 3, lines 5 and 11; Appendix B)."""
        squares = moments.squares
        slab = mode(Latent(np.ones(len(squares)), np.sqrt(scale.inverse_mean * squares)), "slab")
        rate = self.rate + 0.5 * float(slab.weight @ squares)
        variance = mode(InverseGamma(self.shape + 0.5 * len(squares), rate), "variance")
        share = scale.share
        if share is not None:
            assert isinstance(self.rho, Beta)
            assert moments.inclusion is not None
            inside = float(moments.inclusion.sum())
            share = mode(InclusionRate(self.rho.a + inside, self.rho.b + len(moments.inclusion) - inside), "share")
        return LaplaceZeroDistribution(variance, slab, share)

    def fixed_point_step(self, scale: LaplaceZeroDistribution, moments: Moments) -> LaplaceZeroDistribution | None:
        """As for ``Ridge``, with the slab's weights."""
        weight, variances = scale.slab.weight, moments.variances
        spread = float(weight @ variances)
        rest = float(weight @ moments.squares) - spread
        variance = fixed_point(self, moments.size, scale.inverse_mean * spread, rest)
        return None if variance is None else replace(scale, variance=variance)

    def rescale(
        self, scale: LaplaceZeroDistribution, moments: Moments, g: float
    ) -> tuple[LaplaceZeroDistribution, float]:
        """σ² → g²σ², also where an indicator is closed; b and ρ stay: −2A log g − (B/σ²)(g⁻² − 1)."""
        assert isinstance(scale.variance, Point)
        variance, ratio = rescale_variance(self, scale.variance, g)
        return replace(scale, variance=variance), ratio

    def bound(self, scale: LaplaceZeroDistribution, moments: Moments) -> float:
        """E log p(v, b, σ², γ, ρ) − E log q(b, σ², ρ); the indicators' entropy is a term of its own."""
        distribution, squares = scale.variance, moments.squares
        if not isinstance(distribution, InverseGamma):
            return -math.inf
        a, b, weight = distribution.shape, distribution.rate, scale.slab.weight
        surplus = a - distribution.inverse_mean * (self.rate + 0.5 * float(weight @ squares))
        prior = self.shape * math.log(self.rate) - math.lgamma(self.shape)
        slab = -len(squares) * math.log(2) - 0.5 * float((1.0 / weight).sum())
        return prior + math.lgamma(a) - a * math.log(b) + surplus + slab + self._gate_terms(scale, moments)

    def _gate_terms(self, scale: LaplaceZeroDistribution, moments: Moments) -> float:
        """Σ {E γ logit ρ + log(1 − ρ)}, and with an inferred ρ E log p(ρ) − E log q(ρ)."""
        inclusion = moments.inclusion
        assert inclusion is not None
        if scale.share is None:
            log_odds = self._log_odds(len(inclusion))
            return float(inclusion @ log_odds - np.logaddexp(0.0, log_odds).sum())
        assert isinstance(scale.share, InclusionRate)
        assert isinstance(self.rho, Beta)
        q, m, inside = scale.share, len(inclusion), float(inclusion.sum())
        log_in = q.log_odds + q.log_out
        surplus = (self.rho.a + inside - q.a) * log_in + (self.rho.b + m - inside - q.b) * q.log_out
        return surplus + float(betaln(q.a, q.b) - betaln(self.rho.a, self.rho.b))


def _is_list(value: object) -> TypeGuard[Collection[object]]:
    """Whether a value is a list or another collection, such as an array or set; no string or mapping."""
    scalar = isinstance(value, str | bytes | Mapping) or getattr(value, "ndim", 1) == 0
    return isinstance(value, Collection) and not scalar


def _column_number(column: str | int, names: Sequence[str]) -> int:
    """Number of a column from its name or number."""
    if isinstance(column, numbers.Integral) and not isinstance(column, bool):
        if -len(names) <= int(column) < len(names):
            return int(column) % len(names)
    elif isinstance(column, str) and column in names:
        return list(names).index(column)
    raise ValueError(f"LaplaceZero: groups contain {column!r}, which is not one of the {len(names)} columns.")
