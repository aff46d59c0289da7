"""The distribution of the inputs, by which missing ones are inferred with the coefficients (paper, Section 3.3)."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast, final

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_solve
from scipy.special import digamma, gammaln

from vbsvm.base import distributions
from vbsvm.base.arrays import Array, inverse
from vbsvm.base.reading import Reading
from vbsvm.base.settings import Parameters, require_flag, require_positive
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
from vbsvm.missing.missingness import NotAtRandom, ProbitDistribution, Shift
from vbsvm.missing.rows import Inputs


@final
@dataclass(frozen=True)
class GaussianImputation(Parameters):
    """Inputs are jointly normal; missing values are inferred with the coefficients (Algorithm 5).

    Parameters
    ----------
    psi : float, default 0.01
        Diagonal of the inverse-Wishart scale matrix of the inputs' covariance, for standardised inputs; the paper's Ψ.
    nu : float, default None
        Its degrees of freedom. None means d + 1 for d inputs. With d − 1 or fewer, as in the paper's own example, the
        prior is improper: the fit is valid, but its bound lacks a constant that depends on ν and d.
    variance : float, default 1e8
        Prior variance of the inputs' means, σμ²; only used with ``joint=True``.
    joint : bool, default False
        False models the inputs that have missing values given all others: complete inputs may then be dummies, skewed,
        or many. True models all inputs jointly, as in the paper. Coefficients are the same to six digits.
    labels : bool, default True
        Whether missing values are inferred from the labels, too. True is the paper's model. It overrates columns with
        many missing values, because these adapt to the labels. False learns the distribution of the inputs from the
        inputs alone, and then the coefficients; it underrates such columns.
    mechanism : NotAtRandom or Shift, default None
        Why values are missing. None means at random. With ``NotAtRandom`` the chance of being observed depends on the
        value; ``Shift`` moves missing values away from the values that the other inputs predict.
    """

    psi: float = 0.01
    nu: float | None = None
    variance: float = 1e8
    joint: bool = False
    labels: bool = True
    mechanism: NotAtRandom | Shift | None = None

    def __post_init__(self) -> None:
        """Check the settings."""
        require_positive("GaussianImputation", psi=self.psi, variance=self.variance)
        require_flag("GaussianImputation", joint=self.joint, labels=self.labels)
        if self.nu is not None:
            require_positive("GaussianImputation", nu=self.nu)
        if self.mechanism is not None and not isinstance(self.mechanism, NotAtRandom | Shift):
            raise TypeError(
                f"GaussianImputation: mechanism must be NotAtRandom(…), Shift(…) or None; got {self.mechanism!r}."
            )

        if isinstance(self.mechanism, NotAtRandom) and not self.labels:
            raise ValueError("GaussianImputation: NotAtRandom needs labels=True.")

    def shift_of(self, names: Sequence[str]) -> Array:
        """Shift of the missing values of each of these columns, in standard deviations."""
        return self.mechanism.of(names) if isinstance(self.mechanism, Shift) else np.zeros(len(names))


@final
@dataclass(frozen=True, eq=False)
class InputModel:
    """The distribution of the inputs as a part of the model: settings, columns, and the number of all inputs."""

    settings: GaussianImputation
    inputs: Inputs
    n_inputs: int
    probit_of: NDArray[np.intp] | None = None  # the variables that are missing not at random

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
        start = KnownInputs(np.zeros((1 + len(self.inputs.given), n_variables)), np.eye(n_variables))
        return (
            start
            if self.probit_of is None
            else Selective(start, ProbitDistribution.start(self.probit_of, self.inputs.variables[self.probit_of]))
        )

    def update(self, distribution: Any, sums: InputSums, resolve: Reading) -> InputDistribution:
        """q(μ), q(Σ) or their regression form, or draws (Algorithm 5, lines 13 and 14; Appendix C).

        Where labels have no say, what was learned before stays as it is.
        """
        if isinstance(distribution, Learned):
            return distribution
        if isinstance(distribution, Selective):
            assert isinstance(self.settings.mechanism, NotAtRandom)
            assert sums.probit is not None
            probit = distribution.probit.updated(sums.probit, self.settings.mechanism.variance)
            return Selective(self._update(distribution.inputs, sums, resolve), resolve(probit, "inputs", "observed"))
        return self._update(distribution, sums, resolve)

    def _update(self, distribution: Any, sums: InputSums, resolve: Reading) -> InputDistribution:
        if self.settings.joint:
            return cast(InputDistribution, self._update_joint(distribution, sums, resolve))
        return self._update_regression(sums, resolve)

    def _update_regression(self, sums: InputSums, resolve: Reading) -> InputDistribution:
        assert sums.regressors is not None
        psi, n_variables = self.settings.psi, len(self.inputs.variables)
        root = sums.regressors.root(psi)
        A = np.asarray(cho_solve((root, True), sums.linear))
        scale = psi * np.eye(n_variables) + sums.squares - sums.linear.T @ A
        scale = 0.5 * (scale + scale.T)
        return resolve(Regression(A, distributions.InverseWishart(scale, self.nu + sums.total - 1), root), "inputs")

    def _update_joint(self, distribution: InputDistribution, sums: InputSums, resolve: Reading) -> "JointInputs":
        psi, d, T, n = self.settings.psi, len(self.inputs.variables), distribution.precision, sums.total
        spread = inverse(np.eye(d) / self.settings.variance + n * T)
        mean = resolve(MeanDistribution(spread @ (T @ sums.linear[0]), spread), "inputs", "mean")
        scale = psi * np.eye(d) + _about(mean, sums)
        return JointInputs(
            mean.mean, mean.spread, resolve(distributions.InverseWishart(scale, self.nu + n), "inputs", "covariance")
        )

    def bound(self, distribution: Any, sums: InputSums) -> float:
        """E log p(inputs, their parameters) − E log q(parameters), without the entropy of missing values.

        In the regression form this is the distribution of the variables given the other inputs, with a flat intercept.
        """
        if isinstance(distribution, Learned):
            return self.bound(distribution.inputs, sums)
        if isinstance(distribution, Selective):
            assert isinstance(self.settings.mechanism, NotAtRandom)
            assert sums.probit is not None
            return self.bound(distribution.inputs, sums) + distribution.probit.bound(
                sums.probit, self.settings.mechanism.variance
            )
        if isinstance(distribution, Regression):
            return self._bound_regression(distribution, sums)
        if isinstance(distribution, JointInputs) and isinstance(distribution.covariance, distributions.InverseWishart):
            return self._bound_joint(distribution, sums)
        return -math.inf

    def _bound_regression(self, distribution: Regression, sums: InputSums) -> float:
        assert sums.regressors is not None
        psi, e, A = self.settings.psi, len(self.inputs.variables), distribution.coefficients
        K = sums.regressors.precision(psi)
        met = A.T @ sums.linear
        about = sums.squares - met - met.T + A.T @ K @ A
        log_K = 2 * float(np.log(sums.regressors.root(psi).diagonal()).sum())
        constant = 0.5 * e * (len(self.inputs.given) * math.log(psi) - log_K)
        return constant + self._wishart_terms(distribution.covariance, about, sums.total - 1)

    def _bound_joint(self, distribution: JointInputs, sums: InputSums) -> float:
        d, variance = len(distribution.mean), self.settings.variance
        assert isinstance(distribution.covariance, distributions.InverseWishart)
        own = 0.5 * d + 0.5 * float(np.linalg.slogdet(distribution.spread)[1]) - 0.5 * d * math.log(variance)
        own -= (float(distribution.mean @ distribution.mean) + float(distribution.spread.trace())) / (2 * variance)
        return own + self._wishart_terms(distribution.covariance, _about(distribution, sums), sums.total)

    def _wishart_terms(self, q: distributions.InverseWishart, about: Array, n: float) -> float:
        """E log p of n vectors with second moment ``about`` and of their covariance, less E log q of the latter."""
        psi, e = self.settings.psi, len(q.scale)
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


def _log_gamma(a: float, d: int) -> float:
    """log Γ_d(a)."""
    return 0.25 * d * (d - 1) * math.log(math.pi) + float(gammaln(a - 0.5 * np.arange(d)).sum())


def _about(mean: MeanDistribution | JointInputs, sums: InputSums) -> Array:
    """Σ s E(d − μ)(d − μ)ᵀ."""
    met = np.outer(mean.mean, sums.linear[0])
    own = sums.total * (np.outer(mean.mean, mean.mean) + mean.spread)
    about = sums.squares - met - met.T + own
    return np.asarray(0.5 * (about + about.T), dtype=np.float64)
