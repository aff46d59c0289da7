"""Missing data in a model: distributions of predictors and category levels, and the sums that they are updated from.

The distribution of the predictors, by which missing ones are inferred, is that of the paper's Section 3.3, or a
regression.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Self, TypeVar, cast, final

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_solve
from scipy.special import digamma, gammaln

from vbsvm.base.arrays import Array, inverse
from vbsvm.base.distributions import InverseWishart
from vbsvm.base.update_mode import UpdateMode, mean_field, starts_new_draws
from vbsvm.missing.categories import LevelCounts, LevelDistributions, LevelModel
from vbsvm.missing.distributions import (
    FixedInputs,
    InputDistribution,
    InputSums,
    JointInputs,
    KnownInputs,
    ProbitDistribution,
    Regression,
    Selective,
)
from vbsvm.missing.labelled_inputs import LabelledInputs
from vbsvm.missing.rows import Inputs
from vbsvm.missing.settings import GaussianImputation, NotAtRandom
from vbsvm.model.interfaces import Rows
from vbsvm.model.row_pass import add_optional

# Number of sweeps for which the sampler keeps values that do not adapt to the labels: the coefficients then converge
# given these values, as given a completed table.
FIXED_SWEEPS = 20
# Ψ of Luts & Ormerod.
PAPER_PSI = 0.01
INPUTS = "distribution of the predictors"
LEVELS = "distribution of the levels"

T = TypeVar("T")


@final
@dataclass(frozen=True, eq=False)
class MeanDistribution:
    """q(μ) = N(mean, ``spread``)."""

    mean: Array
    spread: Array

    def draw(self, rng: np.random.Generator) -> "MeanDistribution":
        """Draw μ."""
        mean = self.mean + np.linalg.cholesky(self.spread) @ rng.standard_normal(len(self.mean))
        return MeanDistribution(mean, np.zeros_like(self.spread))


@final
@dataclass(frozen=True, eq=False)
class InputModel:
    """Model of the predictors: settings, columns, number of all predictors and of auxiliary regressors."""

    settings: GaussianImputation
    inputs: Inputs
    n_inputs: int
    probit_of: NDArray[np.intp] | None = None  # the variables that are missing not at random
    n_beside: int = 0
    weak_psi: float = PAPER_PSI  # if the settings have no Ψ

    @property
    def n_regressors(self) -> int:
        """Number of regressors of the variables: a constant, known predictors, and auxiliary columns."""
        return 1 + len(self.inputs.given) + self.n_beside

    @property
    def psi(self) -> float:
        """Scale Ψ of the inverse-Wishart prior, worth as many rows of independent standardised predictors."""
        return self.weak_psi if self.settings.psi is None else float(self.settings.psi)

    @property
    def nu(self) -> float:
        """Degrees of freedom ν of the prior; by default the number of all predictors plus 1."""
        return self.n_inputs + 1.0 if self.settings.nu is None else float(self.settings.nu)

    @property
    def proper(self) -> bool:
        """Whether the prior of the covariance is proper."""
        return self.nu > len(self.inputs.variables) - 1

    def start(self) -> InputDistribution:
        """Independent standardised predictors."""
        n_variables = len(self.inputs.variables)
        start = KnownInputs(np.zeros((self.n_regressors, n_variables)), np.eye(n_variables))
        if self.probit_of is None:
            return start
        return Selective(start, ProbitDistribution.start(self.probit_of, self.inputs.variables[self.probit_of]))

    def update(self, distribution: InputDistribution, sums: InputSums, mode: UpdateMode) -> InputDistribution:
        """Update q(μ) q(Σ) or the regression form, or draw (Algorithm 5, lines 13 and 14; Appendix C)."""
        if isinstance(distribution, FixedInputs) or (self.settings.fixed and not starts_new_draws(mode, FIXED_SWEEPS)):
            return distribution
        if self.n_beside:
            inputs = mode(self.labelled(sums, distribution), "inputs")
        elif self.settings.joint:
            inputs = self._update_joint(distribution, sums, mode)
        else:
            inputs = self._update_regression(sums, mode)
        if distribution.probit is None:
            return inputs
        assert sums.probit is not None
        probit = distribution.probit.updated(sums.probit, self._probit_variance)
        return Selective(inputs, mode(probit, "inputs", "observed"))

    @property
    def _probit_variance(self) -> float:
        assert isinstance(self.settings.mechanism, NotAtRandom)
        return self.settings.mechanism.variance

    def _update_regression(self, sums: InputSums, mode: UpdateMode) -> InputDistribution:
        assert sums.regressors is not None
        psi, n_variables = self.psi, len(self.inputs.variables)
        root = sums.regressors.root(psi)
        A = np.asarray(cho_solve((root, True), sums.linear))
        scale = psi * np.eye(n_variables) + sums.squares - sums.linear.T @ A
        scale = 0.5 * (scale + scale.T)
        return mode(Regression(A, InverseWishart(scale, self.nu + sums.total - 1), root), "inputs")

    def _update_joint(self, distribution: InputDistribution, sums: InputSums, mode: UpdateMode) -> InputDistribution:
        psi, d, T, n = self.psi, len(self.inputs.variables), distribution.precision, sums.total
        spread = inverse(np.eye(d) / self.settings.variance + n * T)
        mean = mode(MeanDistribution(spread @ (T @ sums.linear[0]), spread), "inputs", "mean")
        scale = psi * np.eye(d) + _scatter_about_mean(mean, sums)
        covariance = mode(InverseWishart(scale, self.nu + n), "inputs", "covariance")
        return cast(InputDistribution, JointInputs(mean.mean, mean.spread, covariance))

    def labelled(self, sums: InputSums, before: InputDistribution | None = None) -> LabelledInputs:
        """Distribution with labels as regressors, and the prior of ``before``."""
        K = before.K if isinstance(before, LabelledInputs) else None
        return LabelledInputs.from_sums(sums, self._n_known, self.psi, self.nu, K)

    @property
    def _n_known(self) -> int:
        """Number of regressors that are not labels."""
        return 1 + len(self.inputs.given)

    def without_labels(self, sums: InputSums) -> KnownInputs:
        """Distribution given the other predictors alone, with labels integrated out, as for prediction."""
        assert sums.regressors is not None
        known = replace(sums, linear=sums.linear[: self._n_known], regressors=sums.regressors.leading(self._n_known))
        regression = self._update_regression(known, mean_field)
        of_labels = np.zeros((self.n_beside, len(self.inputs.variables)))
        return KnownInputs(np.vstack([regression.coefficients, of_labels]), regression.precision)

    def bound(self, distribution: InputDistribution, sums: InputSums) -> float:
        """E log p(predictors, their parameters) − E log q(parameters), without the entropy of missing values.

        In the regression form this is the distribution of the variables given the other predictors, with a flat
        intercept.
        """
        match distribution:
            case FixedInputs(inputs):
                return self.bound(inputs, sums)
            case Selective(inputs, probit):
                assert sums.probit is not None
                return self.bound(inputs, sums) + probit.bound(sums.probit, self._probit_variance)
            case Regression():
                return self._bound_regression(distribution, sums)
            case LabelledInputs():
                return _bound_at_parameters(distribution, sums)
            case JointInputs(covariance=InverseWishart() as covariance):
                return self._bound_joint(distribution, covariance, sums)
            case _:  # a start or a draw: a point
                return -math.inf

    def _bound_regression(self, distribution: Regression, sums: InputSums) -> float:
        assert sums.regressors is not None
        psi, e, A = self.psi, len(self.inputs.variables), distribution.coefficients
        K = sums.regressors.precision(psi)
        cross = A.T @ sums.linear
        scatter = sums.squares - cross - cross.T + A.T @ K @ A
        log_K = 2 * float(np.log(sums.regressors.root(psi).diagonal()).sum())
        constant = 0.5 * e * ((self.n_regressors - 1) * math.log(psi) - log_K)
        return constant + self._wishart_terms(distribution.covariance, scatter, sums.total - 1)

    def _bound_joint(self, distribution: JointInputs, covariance: InverseWishart, sums: InputSums) -> float:
        d, variance = len(distribution.mean), self.settings.variance
        of_mean = 0.5 * d + 0.5 * float(np.linalg.slogdet(distribution.spread)[1]) - 0.5 * d * math.log(variance)
        of_mean -= (float(distribution.mean @ distribution.mean) + float(distribution.spread.trace())) / (2 * variance)
        return of_mean + self._wishart_terms(covariance, _scatter_about_mean(distribution, sums), sums.total)

    def _wishart_terms(self, q: InverseWishart, scatter: Array, n: float) -> float:
        """E log p of n vectors with second moment ``scatter`` and of their covariance, minus E log q of the latter."""
        psi, e = self.psi, len(q.scale)
        degrees, N = self.nu + n, q.degrees
        log_scale = float(np.linalg.slogdet(q.scale)[1])
        value = 0.5 * self.nu * e * math.log(psi) - 0.5 * n * e * math.log(math.pi)
        value += _log_gamma(0.5 * N, e) - (_log_gamma(0.5 * self.nu, e) if self.proper else 0.0)
        value += 0.5 * N * e - 0.5 * N * log_scale
        value -= 0.5 * (psi * float(np.trace(q.inverse_mean)) + float(np.vdot(q.inverse_mean, scatter)))
        if degrees != N:  # a distribution estimated from other rows
            log_det = log_scale - e * math.log(2) - float(digamma(0.5 * (N - np.arange(e))).sum())
            value -= 0.5 * (degrees - N) * (log_det + e * math.log(2))
        return float(value)


def _bound_at_parameters(distribution: LabelledInputs, sums: InputSums) -> float:
    """E log p(predictors) at known parameters."""
    assert sums.regressors is not None
    A, P = distribution.coefficients, distribution.precision
    log_det = distribution.log_det - len(P) * math.log(2 * math.pi)
    if distribution.has_few_rows:
        of_mean = np.vdot(distribution.weighted_coefficients, sums.regressors.matrix @ A - 2.0 * sums.linear)
        return 0.5 * (sums.total * log_det - float(np.vdot(P, sums.squares)) - float(of_mean))
    cross = A.T @ sums.linear
    scatter = sums.squares - cross - cross.T + A.T @ sums.regressors.matrix @ A
    return 0.5 * (sums.total * log_det - float(np.vdot(P, scatter)))


def _log_gamma(a: float, d: int) -> float:
    """log Γ_d(a)."""
    return 0.25 * d * (d - 1) * math.log(math.pi) + float(gammaln(a - 0.5 * np.arange(d)).sum())


def _scatter_about_mean(mean: MeanDistribution | JointInputs, sums: InputSums) -> Array:
    """Σ s E(d − μ)(d − μ)ᵀ."""
    cross = np.outer(mean.mean, sums.linear[0])
    scatter = sums.squares - cross - cross.T + sums.total * (np.outer(mean.mean, mean.mean) + mean.spread)
    return np.asarray(0.5 * (scatter + scatter.T), dtype=np.float64)


@final
@dataclass(frozen=True, eq=False)
class MissingSums:
    """Sums over rows for the distributions of missing data; ``values`` are the sampler's draws by block of rows."""

    inputs: InputSums | None = None
    levels: LevelCounts | None = None
    values: Mapping[int, Array] = field(default_factory=dict)

    def __add__(self, other: Self) -> "MissingSums":
        """Add the sums of two sets of rows."""
        values = {**self.values, **other.values}
        return MissingSums(add_optional(self.inputs, other.inputs), add_optional(self.levels, other.levels), values)


@final
@dataclass(frozen=True, eq=False)
class MissingState:
    """Distributions of predictors and category levels, and the sampler's last draws of missing predictors."""

    inputs: InputDistribution | None = None
    levels: LevelDistributions | None = None
    values: Mapping[int, Array] | None = None

    def pack(self) -> list[float]:
        """Return the parameters of the levels, then those of the predictors."""
        return [x for part in (self.levels, self.inputs) if part is not None for x in part.pack()]

    def unpack(self, numbers: Array) -> "MissingState":
        """Inverse of ``pack``."""
        n_levels = 0 if self.levels is None else len(self.levels.pack())
        levels = None if self.levels is None else self.levels.unpack(numbers[:n_levels])
        return MissingState(None if self.inputs is None else self.inputs.unpack(numbers[n_levels:]), levels)

    def without_values(self) -> "MissingState":
        """The state without the sampler's draws."""
        return replace(self, values=None)

    def with_complete_rows(self, sums: MissingSums | None, rows: Rows, mode: UpdateMode) -> MissingSums | None:
        """Add the complete rows' sums of the probit model, if values are missing not at random."""
        if self.inputs is None or self.inputs.probit is None:
            return sums
        probit = self.inputs.probit
        values = rows.columns(probit.columns)
        observed = np.ones(values.shape, dtype=bool)
        latent = mode(probit.latents(values, observed), "observed rows", rows.index).value
        of_probit = probit.sums(values, np.zeros_like(values), observed, rows.weights, latent)
        shape = self.inputs.coefficients.shape
        inputs = InputSums(np.zeros(shape), np.zeros((shape[1], shape[1])), probit=of_probit)
        return add_optional(sums, MissingSums(inputs))


@final
@dataclass(frozen=True, eq=False)
class MissingModel:
    """Models of the predictors and of the category levels, each optional."""

    inputs: InputModel | None = None
    levels: LevelModel | None = None

    @property
    def fixed(self) -> bool:
        """Whether the distribution of missing data is fixed while coefficients are fitted."""
        inputs = self.inputs is None or self.inputs.settings.fixed
        return inputs and (self.levels is None or self.levels.held)

    def start(self) -> MissingState:
        """Independent standardised predictors, and equal probabilities of the levels."""
        inputs = None if self.inputs is None else self.inputs.start()
        return MissingState(inputs, None if self.levels is None else self.levels.start())

    def update(self, state: MissingState, sums: MissingSums, mode: UpdateMode) -> MissingState:
        """Update both distributions from the sums of a pass, or draw (Algorithm 5, lines 13 and 14; Appendix C)."""
        levels = None if self.levels is None else self.levels.update(_required(sums.levels), mode)
        inputs = state.inputs
        if self.inputs is not None:
            inputs = self.inputs.update(_required(inputs), _required(sums.inputs), mode)
        return replace(state, inputs=inputs, levels=levels, values=sums.values or state.values)

    def marginal_over_labels(self, state: MissingState, sums: InputSums | None) -> MissingState:
        """The distributions with labels integrated out, as for new rows."""
        if self.inputs is None or not self.inputs.n_beside:
            return state
        return replace(state, inputs=self.inputs.without_labels(_required(sums)))

    def bound(self, state: MissingState, sums: MissingSums) -> dict[str, float]:
        """Terms of both distributions in the ELBO."""
        terms = {}
        if self.inputs is not None:
            terms[INPUTS] = self.inputs.bound(_required(state.inputs), _required(sums.inputs))
        if self.levels is not None:
            terms[LEVELS] = self.levels.bound(_required(state.levels), _required(sums.levels))
        return terms


def input_model(missing: object) -> InputModel | None:
    """The model of predictors with missing values in ``Spec.missing``, or None."""
    return missing.inputs if isinstance(missing, MissingModel) else None


def _required(part: T | None) -> T:
    """Return the part, which must not be None."""
    assert part is not None
    return part
