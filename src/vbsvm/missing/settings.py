"""What users set about missing inputs: the prior of the inputs' distribution, and why values are missing."""

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
    """Missing values are higher (or lower) than the known inputs of their rows predict, by a given amount.

    This applies to the rows of the fit; in new rows inputs are assumed to be missing at random.

    Parameters
    ----------
    by : float or dict
        The shift of missing values, in standard deviations of the column; a dictionary gives one for each column.
    """

    by: float | Mapping[str, float]

    def __post_init__(self) -> None:
        """Refuse what is not a number."""
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
    """Whether a value is observed depends on the value itself: P(observed) = Φ(φ₀ + φ₁ value).

    Little but the assumed normality of the inputs identifies φ₁: combine it with a sensitivity analysis. This applies
    to the rows of the fit; in new rows inputs are assumed to be missing at random.

    Parameters
    ----------
    columns : list of str, default None
        Columns whose values are missing in this way; None means all columns with missing values.
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
        """Numbers of the columns among these."""
        if self.columns is None:
            return np.arange(len(names))
        check_known("NotAtRandom", self.columns, names)
        return np.array([list(names).index(name) for name in self.columns], dtype=np.intp)


# Most rows that a row is expanded to.
MAX_DRAWS = 1000
# What labels have to do with missing values.
REGRESSOR, LIKELIHOOD, NONE = LABELS = "regressor", "likelihood", "none"


@final
@dataclass(frozen=True)
class GaussianImputation(Parameters):
    """Missing inputs are normal given the known inputs of their row and its label.

    Parameters
    ----------
    psi : float, default None
        Scale of the inverse-Wishart prior of the inputs' covariance, Ψ = psi I, for standardised inputs: it counts like
        so many rows of independent inputs. None is the number of inputs where these are standardised and missing values
        do not adapt to the coefficients, which keeps many columns beside few rows from being overfitted; else 0.01,
        as in the paper.
    nu : float, default None
        Its degrees of freedom. None means d + 1 for d inputs. With d − 1 or fewer, as in the paper's own example, the
        prior is improper: the fit is valid, but its bound lacks a constant that depends on ν and d.
    variance : float, default 1e8
        Prior variance of the inputs' means, σμ²; only used with ``joint=True`` where the label is no regressor.
    joint : bool, default False
        False models the inputs that have missing values given all others: complete inputs may then be dummies, skewed,
        or many. True models all inputs jointly, as in the paper. Coefficients are nearly the same.
    labels : "regressor", "likelihood" or "none", default "regressor"
        What labels tell about missing values. "regressor": missing inputs are conditional on the label, as in multiple
        imputation; their distribution is learned first, and held while the coefficients are fitted. A prior of
        inferred strength keeps labels from telling more than the rows warrant.
        A sampler draws missing values from the same distribution, whatever the coefficients are: a cut posterior.
        "likelihood" is the paper's model: missing values and coefficients are inferred together (Algorithm 5). It
        overrates columns with many missing values, because these adapt to the labels. "none" learns the distribution
        of the inputs from the inputs alone; it underrates such columns. Predictions never use a label.
    mechanism : NotAtRandom or Shift, default None
        Why values are missing. None means at random. With ``NotAtRandom`` the chance of being observed depends on the
        value; ``Shift`` moves missing values away from the values that the other inputs predict.
    transform : "none", "power" or "rank", default "none"
        The scale on which inputs with missing values are normal, in a ``Model``: their own, a power of them (Yeo and
        Johnson's, for skewed inputs), or their ranks (for any distribution). With the last two, missing values are
        drawn within the range of the known ones.
    draws : int, default 20
        How many values are drawn for a missing input that does not enter a formula linearly, as in ``s(age)``.
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
                'labels="likelihood" and a mechanism do not allow.'
            )
        if self.nu is not None:
            check_positive("GaussianImputation", nu=self.nu)
        if self.mechanism is not None and not isinstance(self.mechanism, NotAtRandom | Shift):
            raise TypeError(
                f"GaussianImputation: mechanism must be NotAtRandom(…), Shift(…) or None; got {self.mechanism!r}."
            )

    def _read_labels(self) -> None:
        """Accept True and False, as they were once written."""
        if isinstance(self.labels, bool | np.bool_):
            meant = LIKELIHOOD if self.labels else NONE
            message = f'GaussianImputation: labels={bool(self.labels)} is now labels="{meant}"; the old form will go.'
            warnings.warn(message, FutureWarning, stacklevel=4)
            object.__setattr__(self, "labels", meant)
        elif not isinstance(self.labels, str) or self.labels not in LABELS:
            known = ", ".join(f'"{name}"' for name in LABELS)
            raise ValueError(f"GaussianImputation: labels must be one of {known}; got {self.labels!r}.")

    @property
    def fixed(self) -> bool:
        """Whether missing values are fixed while coefficients are fitted: their distribution is learned first.

        Else they adapt to the coefficients.
        """
        return self.labels != LIKELIHOOD

    @property
    def draws_columns(self) -> bool:
        """Whether values are drawn, before the fit, for columns that do not enter linearly or are transformed."""
        return self.fixed and self.mechanism is None

    def shift_of(self, names: Sequence[str]) -> Array:
        """Shift of the missing values of each of these columns, in standard deviations."""
        return self.mechanism.of(names) if isinstance(self.mechanism, Shift) else np.zeros(len(names))


def check_known(owner: str, given: Sequence[str], names: Sequence[str]) -> None:
    """Reject names of columns that have no missing values."""
    unknown = [name for name in given if name not in names]
    if unknown:
        raise ValueError(f"{owner}: {unknown[0]!r} is not a column with missing values; there are {list(names)}.")
