"""The distribution of the inputs, by which missing ones are inferred with the coefficients (paper, Section 3.3)."""

import math
from dataclasses import dataclass, replace
from typing import cast, final

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_solve
from scipy.special import digamma, gammaln

from vbsvm.base import distributions
from vbsvm.base.arrays import Array, inverse
from vbsvm.base.reading import Reading, expect, renews
from vbsvm.missing.input_distributions import (
    InputDistribution,
    InputSums,
    JointInputs,
    KnownInputs,
    Learned,
    MeanDistribution,
    Regression,
    Selective,
)
from vbsvm.missing.labelled_inputs import LabelledInputs
from vbsvm.missing.missingness import ProbitDistribution
from vbsvm.missing.rows import Inputs
from vbsvm.missing.settings import GaussianImputation, NotAtRandom

# Sweeps of a sampler for which values that do not adapt to the labels are held: so long that the coefficients come to
# rest around them, as they would around a completed table.
HELD_SWEEPS = 20
# The paper's Ψ.
PAPERS_PSI = 0.01


@final
@dataclass(frozen=True, eq=False)
class InputModel:
    """The model of the inputs: settings, columns, the number of all inputs, and that of regressors beside these."""

    settings: GaussianImputation
    inputs: Inputs
    n_inputs: int
    probit_of: NDArray[np.intp] | None = None  # the variables that are missing not at random
    n_beside: int = 0
    weak_psi: float = PAPERS_PSI  # where the settings leave Ψ open

    @property
    def n_regressors(self) -> int:
        """What the variables are regressed on: a constant, known inputs, and what is known beside these."""
        return 1 + len(self.inputs.given) + self.n_beside

    @property
    def psi(self) -> float:
        """The scale of the inverse-Wishart prior, Ψ: what so many rows of independent standardised inputs would add."""
        return self.weak_psi if self.settings.psi is None else float(self.settings.psi)

    @property
    def nu(self) -> float:
        """ν, which counts all inputs."""
        return self.n_inputs + 1.0 if self.settings.nu is None else float(self.settings.nu)

    @property
    def proper(self) -> bool:
        """Whether the prior of the covariance is a density that can be normalised."""
        return self.nu > len(self.inputs.variables) - 1

    def start(self) -> InputDistribution:
        """Independent standardised inputs."""
        n_variables = len(self.inputs.variables)
        start = KnownInputs(np.zeros((self.n_regressors, n_variables)), np.eye(n_variables))
        if self.probit_of is None:
            return start
        return Selective(start, ProbitDistribution.start(self.probit_of, self.inputs.variables[self.probit_of]))

    def update(self, distribution: InputDistribution, sums: InputSums, resolve: Reading) -> InputDistribution:
        """q(μ), q(Σ) or their regression form, or draws (Algorithm 5, lines 13 and 14; Appendix C).

        A distribution that was learned before the coefficients stays as it is.
        """
        if isinstance(distribution, Learned) or (self.settings.held and not renews(resolve, HELD_SWEEPS)):
            return distribution
        if self.n_beside:
            inputs = resolve(self.labelled(sums, distribution), "inputs")
        elif self.settings.joint:
            inputs = self._update_joint(distribution, sums, resolve)
        else:
            inputs = self._update_regression(sums, resolve)
        if distribution.probit is None:
            return inputs
        assert sums.probit is not None
        probit = distribution.probit.updated(sums.probit, self._probit_variance)
        return Selective(inputs, resolve(probit, "inputs", "observed"))

    @property
    def _probit_variance(self) -> float:
        assert isinstance(self.settings.mechanism, NotAtRandom)
        return self.settings.mechanism.variance

    def _update_regression(self, sums: InputSums, resolve: Reading) -> InputDistribution:
        assert sums.regressors is not None
        psi, n_variables = self.psi, len(self.inputs.variables)
        root = sums.regressors.root(psi)
        A = np.asarray(cho_solve((root, True), sums.linear))
        scale = psi * np.eye(n_variables) + sums.squares - sums.linear.T @ A
        scale = 0.5 * (scale + scale.T)
        return resolve(Regression(A, distributions.InverseWishart(scale, self.nu + sums.total - 1), root), "inputs")

    def _update_joint(self, distribution: InputDistribution, sums: InputSums, resolve: Reading) -> InputDistribution:
        psi, d, T, n = self.psi, len(self.inputs.variables), distribution.precision, sums.total
        spread = inverse(np.eye(d) / self.settings.variance + n * T)
        mean = resolve(MeanDistribution(spread @ (T @ sums.linear[0]), spread), "inputs", "mean")
        scale = psi * np.eye(d) + _about(mean, sums)
        covariance = resolve(distributions.InverseWishart(scale, self.nu + n), "inputs", "covariance")
        return cast(InputDistribution, JointInputs(mean.mean, mean.spread, covariance))

    def labelled(self, sums: InputSums, before: InputDistribution | None = None) -> LabelledInputs:
        """The distribution where labels tell about missing values, with the prior of the one ``before``."""
        K = before.K if isinstance(before, LabelledInputs) else None
        return LabelledInputs.of(sums, self._n_known, self.psi, self.nu, K)

    def with_label_prior(self, distribution: LabelledInputs, known: InputSums) -> LabelledInputs:
        """The same with the prior that the evidence asks for; ``known`` are sums at the means without labels."""
        return distribution.held(known, self._n_known, self.psi)

    @property
    def _n_known(self) -> int:
        """Regressors beside the labels."""
        return 1 + len(self.inputs.given)

    def without_labels(self, sums: InputSums) -> KnownInputs:
        """The distribution given the other inputs alone, as predictions have it: labels are integrated out."""
        assert sums.regressors is not None
        kept, known = slice(self._n_known), sums.regressors.leading(self._n_known)
        found = self._update_regression(replace(sums, linear=sums.linear[kept], regressors=known), expect)
        no_say = np.zeros((self.n_beside, len(self.inputs.variables)))
        return KnownInputs(np.vstack([found.coefficients, no_say]), found.precision)

    def bound(self, distribution: InputDistribution, sums: InputSums) -> float:
        """E log p(inputs, their parameters) − E log q(parameters), without the entropy of missing values.

        In the regression form this is the distribution of the variables given the other inputs, with a flat intercept.
        """
        match distribution:
            case Learned(inputs):
                return self.bound(inputs, sums)
            case Selective(inputs, probit):
                assert sums.probit is not None
                return self.bound(inputs, sums) + probit.bound(sums.probit, self._probit_variance)
            case Regression():
                return self._bound_regression(distribution, sums)
            case LabelledInputs():
                return _held_bound(distribution, sums)
            case JointInputs(covariance=distributions.InverseWishart() as covariance):
                return self._bound_joint(distribution, covariance, sums)
            case _:  # a start or a draw, which has no spread
                return -math.inf

    def _bound_regression(self, distribution: Regression, sums: InputSums) -> float:
        assert sums.regressors is not None
        psi, e, A = self.psi, len(self.inputs.variables), distribution.coefficients
        K = sums.regressors.precision(psi)
        met = A.T @ sums.linear
        about = sums.squares - met - met.T + A.T @ K @ A
        log_K = 2 * float(np.log(sums.regressors.root(psi).diagonal()).sum())
        constant = 0.5 * e * ((self.n_regressors - 1) * math.log(psi) - log_K)
        return constant + self._wishart_terms(distribution.covariance, about, sums.total - 1)

    def _bound_joint(
        self, distribution: JointInputs, covariance: distributions.InverseWishart, sums: InputSums
    ) -> float:
        d, variance = len(distribution.mean), self.settings.variance
        own = 0.5 * d + 0.5 * float(np.linalg.slogdet(distribution.spread)[1]) - 0.5 * d * math.log(variance)
        own -= (float(distribution.mean @ distribution.mean) + float(distribution.spread.trace())) / (2 * variance)
        return own + self._wishart_terms(covariance, _about(distribution, sums), sums.total)

    def _wishart_terms(self, q: distributions.InverseWishart, about: Array, n: float) -> float:
        """E log p of n vectors with second moment ``about`` and of their covariance, less E log q of the latter."""
        psi, e = self.psi, len(q.scale)
        fresh, N = self.nu + n, q.degrees
        log_scale = float(np.linalg.slogdet(q.scale)[1])
        value = 0.5 * self.nu * e * math.log(psi) - 0.5 * n * e * math.log(math.pi)
        value += _log_gamma(0.5 * N, e) - (_log_gamma(0.5 * self.nu, e) if self.proper else 0.0)
        value += 0.5 * N * e - 0.5 * N * log_scale
        value -= 0.5 * (psi * float(np.trace(q.inverse_mean)) + float(np.vdot(q.inverse_mean, about)))
        if fresh != N:  # a distribution that comes from other rows
            log_det = log_scale - e * math.log(2) - float(digamma(0.5 * (N - np.arange(e))).sum())
            value -= 0.5 * (fresh - N) * (log_det + e * math.log(2))
        return float(value)


def _held_bound(distribution: LabelledInputs, sums: InputSums) -> float:
    """E log p(inputs) under a distribution that is held: its parameters are known, and have no terms of their own."""
    assert sums.regressors is not None
    A, P = distribution.coefficients, distribution.precision
    met = A.T @ sums.linear
    about = sums.squares - met - met.T + A.T @ sums.regressors.matrix @ A
    log_det = float(np.linalg.slogdet(P)[1]) - len(P) * math.log(2 * math.pi)
    return 0.5 * (sums.total * log_det - float(np.vdot(P, about)))


def _log_gamma(a: float, d: int) -> float:
    """log Γ_d(a)."""
    return 0.25 * d * (d - 1) * math.log(math.pi) + float(gammaln(a - 0.5 * np.arange(d)).sum())


def _about(mean: MeanDistribution | JointInputs, sums: InputSums) -> Array:
    """Σ s E(d − μ)(d − μ)ᵀ."""
    met = np.outer(mean.mean, sums.linear[0])
    own = sums.total * (np.outer(mean.mean, mean.mean) + mean.spread)
    about = sums.squares - met - met.T + own
    return np.asarray(0.5 * (about + about.T), dtype=np.float64)
