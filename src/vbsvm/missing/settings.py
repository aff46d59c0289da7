"""Settings for missing predictors: the prior of their distribution, and the mechanism of missingness."""

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import final

import numpy as np
from numpy.typing import NDArray

from vbsvm.base.arrays import Array
from vbsvm.base.settings import Parameters, check_flag, check_positive, check_whole, is_within
from vbsvm.design.candidates import NONE as NO_TRANSFORM
from vbsvm.design.candidates import TRANSFORMS


@final
@dataclass(frozen=True)
class Shift(Parameters):
    """Missing not at random: missing values are shifted from those that the observed predictors predict.

    This applies to the data of the fit; in new data values are assumed to be missing at random.

    Parameters
    ----------
    by : float or dict
        The shift of missing values, in standard deviations of the column; a dictionary gives one for each column.
    """

    by: float | Mapping[str, float]

    def __post_init__(self) -> None:
        """Check that shifts are numbers."""
        values = self.by.values() if isinstance(self.by, Mapping) else [self.by]
        for value in values:
            if not is_within(value, -1e6, 1e6):
                raise ValueError(f"Shift: by must be a number, or numbers by column; got {self.by!r}.")

    def of(self, names: Sequence[str]) -> Array:
        """The shift of each of these columns."""
        if not isinstance(self.by, Mapping):
            return np.full(len(names), float(self.by))
        check_known("Shift", list(self.by), names)
        return np.array([float(self.by.get(name, 0.0)) for name in names])


@final
@dataclass(frozen=True)
class NotAtRandom(Parameters):
    """Missing not at random, a selection model: P(observed) = Φ(φ₀ + φ₁ value).

    φ₁ is identified by little more than the assumed normality of the predictors: add a sensitivity analysis. This
    applies to the data of the fit; in new data values are assumed to be missing at random.

    Parameters
    ----------
    columns : list of str, default None
        Columns whose values are missing not at random; None means all columns with missing values.
    variance : float, default 100
        Prior variance of φ₀ and φ₁, for standardised columns.
    """

    columns: Sequence[str] | None = None
    variance: float = 100.0

    def __post_init__(self) -> None:
        """Check the settings."""
        check_positive("NotAtRandom", variance=self.variance)
        if self.columns is None:
            return
        if not isinstance(self.columns, Sequence) or isinstance(self.columns, str) or len(self.columns) == 0:
            raise ValueError(f"NotAtRandom: columns must be a list of column names; got {self.columns!r}.")
        if any(name in self.columns[:k] for k, name in enumerate(self.columns)):
            raise ValueError(f"NotAtRandom: columns names a column twice; got {self.columns!r}.")

    def of(self, names: Sequence[str]) -> NDArray[np.intp]:
        """Positions of the columns among these."""
        if self.columns is None:
            return np.arange(len(names))
        check_known("NotAtRandom", self.columns, names)
        return np.array([list(names).index(name) for name in self.columns], dtype=np.intp)


# Maximal number of rows that a row is expanded to.
MAX_DRAWS = 1000
# Role of labels in the imputation.
REGRESSOR, LIKELIHOOD, NONE = LABELS = "regressor", "likelihood", "none"


@final
@dataclass(frozen=True)
class GaussianImputation(Parameters):
    """Imputation of missing predictors by a normal distribution given the observed predictors and the label.

    Parameters
    ----------
    psi : float, default None
        Scale of the inverse-Wishart prior of the predictors' covariance, Ψ = psi I, for standardised predictors: the
        weight of psi observations of independent predictors. None is the number of predictors if these are standardised
        and the imputation does not adapt to the coefficients, which prevents overfitting with many predictors and few
        observations; else 0.01, as in the paper.
    nu : float, default None
        Its degrees of freedom. None means d + 1 for d predictors. With d − 1 or fewer, as in the paper's own example,
        the prior is improper: the fit is valid, but its bound lacks a constant that depends on ν and d.
    variance : float, default 1e8
        Prior variance of the predictors' means, σμ²; used with ``joint=True`` if labels are no regressors.
    joint : bool, default False
        False models incomplete predictors given all others: complete ones may then be dummies, skewed, or many. True
        models all predictors jointly, as in the paper. Coefficients are nearly the same.
    labels : "regressor", "likelihood" or "none", default "regressor"
        Role of the labels in the imputation. "regressor": missing predictors are conditional on the label, as in
        multiple imputation; their distribution is estimated first, and fixed while the coefficients are fitted. A prior
        of inferred strength shrinks the regression on labels. A sampler draws missing values from the same
        distribution, whatever the coefficients are: a cut posterior. "likelihood" is the paper's model: missing values
        and coefficients are inferred together (Algorithm 5). It overestimates coefficients of columns with many missing
        values, because these adapt to the labels. "none" ignores the labels, which underestimates such coefficients.
        Predictions never use a label.
    mechanism : NotAtRandom or Shift, default None
        Why values are missing. None means at random. With ``NotAtRandom`` the probability of being observed depends
        on the value; ``Shift`` shifts missing values from those that the observed predictors predict.
    transform : "none", "power" or "rank", default "none"
        Scale on which incomplete predictors are normal, in a ``Model``: their own, a power transform (Yeo–Johnson, for
        skewed predictors), or normal scores of ranks (for any distribution). With the last two, missing values are
        drawn within the range of the observed ones.
    draws : int, default 20
        Number of draws of a missing predictor that does not enter a formula linearly, as in ``s(age)``.
    """

    psi: float | None = None
    nu: float | None = None
    variance: float = 1e8
    joint: bool = False
    labels: str = REGRESSOR
    mechanism: NotAtRandom | Shift | None = None
    transform: str = NO_TRANSFORM
    draws: int = 20

    def __post_init__(self) -> None:
        """Check the settings."""
        check_positive("GaussianImputation", variance=self.variance)
        if self.psi is not None:
            check_positive("GaussianImputation", psi=self.psi)
        check_flag("GaussianImputation", joint=self.joint)
        self._read_labels()
        check_whole("GaussianImputation", 2, MAX_DRAWS, draws=self.draws)
        if not isinstance(self.transform, str) or self.transform not in TRANSFORMS:
            known = ", ".join(f'"{name}"' for name in TRANSFORMS)
            raise ValueError(f"GaussianImputation: transform must be one of {known}; got {self.transform!r}.")
        if self.transform != NO_TRANSFORM and not self.draws_columns:
            raise ValueError(
                f"GaussianImputation: with transform={self.transform!r} missing values are drawn before the fit, which "
                'is not supported with labels="likelihood" or a mechanism.'
            )
        if self.nu is not None:
            check_positive("GaussianImputation", nu=self.nu)
        if self.mechanism is not None and not isinstance(self.mechanism, NotAtRandom | Shift):
            raise TypeError(
                f"GaussianImputation: mechanism must be NotAtRandom(…), Shift(…) or None; got {self.mechanism!r}."
            )

    def _read_labels(self) -> None:
        """Check ``labels``; True and False are deprecated."""
        if isinstance(self.labels, bool | np.bool_):
            meant = LIKELIHOOD if self.labels else NONE
            message = f'GaussianImputation: labels={bool(self.labels)} is deprecated, use labels="{meant}".'
            warnings.warn(message, FutureWarning, stacklevel=4)
            object.__setattr__(self, "labels", meant)
        elif not isinstance(self.labels, str) or self.labels not in LABELS:
            known = ", ".join(f'"{name}"' for name in LABELS)
            raise ValueError(f"GaussianImputation: labels must be one of {known}; got {self.labels!r}.")

    @property
    def fixed(self) -> bool:
        """Whether the imputation model is estimated first and fixed: else missing values adapt to the coefficients."""
        return self.labels != LIKELIHOOD

    @property
    def draws_columns(self) -> bool:
        """Whether values are drawn, before the fit, for columns that do not enter linearly or are transformed."""
        return self.fixed and self.mechanism is None


def check_known(owner: str, given: Sequence[str], names: Sequence[str]) -> None:
    """Reject names of columns that have no missing values."""
    unknown = [name for name in given if name not in names]
    if unknown:
        raise ValueError(f"{owner}: {unknown[0]!r} is not a column with missing values; those are {list(names)}.")
