"""Rubin's rules: fits to tables that were completed in several ways, as one result."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, final

import numpy as np
from scipy.special import stdtr, stdtrit

from vbsvm.base import printing
from vbsvm.base.arrays import Array
from vbsvm.base.settings import check_level
from vbsvm.results.display import MOST_ROWS
from vbsvm.results.fit import Fit

if TYPE_CHECKING:
    import pandas as pd


@final
@dataclass(frozen=True, eq=False, repr=False)
class Pooled:
    """Pooled coefficients of several fits: estimates, standard errors and degrees of freedom.

    ``within`` and ``between`` are the mean of the fits' variances and the variance of their coefficients;
    ``missing_information`` is each coefficient's fraction of missing information.
    """

    names: tuple[str, ...]
    n_fits: int
    coefficients: Array
    within: Array
    between: Array
    degrees: Array
    missing_information: Array

    @property
    def standard_errors(self) -> Array:
        """Standard errors: square roots of within + (1 + 1/m) between."""
        return np.sqrt(self.within + (1 + 1 / self.n_fits) * self.between)

    def summary(self, level: float = 0.95) -> "pd.DataFrame":
        """One row for each coefficient, with a Student's t interval and the fraction of missing information."""
        import pandas as pd

        check_level("summary", level)
        mean, error = self.coefficients, self.standard_errors
        half = stdtrit(self.degrees, 0.5 + 0.5 * level) * error
        certain = np.where(mean == 0.0, 0.0, np.copysign(np.inf, mean))
        columns = {
            "coefficient": mean,
            "sd": error,
            "lower": mean - half,
            "upper": mean + half,
            "p_positive": stdtr(self.degrees, np.divide(mean, error, out=certain, where=error > 0)),
            "degrees": self.degrees,
            "missing_information": self.missing_information,
        }
        return pd.DataFrame(columns, index=pd.Index(self.names))

    def __repr__(self) -> str:
        """The table, and what it is of."""
        return f"{printing.table(self.summary())}\n\n{self._note}"

    def _repr_html_(self) -> str:
        """The same in notebooks."""
        return printing.html_frame("", self.summary(), MOST_ROWS) + f"<p>{self._note}</p>"

    @property
    def _note(self) -> str:
        return f"Pooled over {self.n_fits} fits by Rubin's rules."


def pool(fits: Sequence[Any], covariance: str | None = None) -> Pooled:
    """Pool fits to tables that were completed in several ways, as ``impute(X, n)`` gives them, by Rubin's rules.

    Parameters
    ----------
    fits : sequence of Fit or VBSVC
        At least two fits of the same model; ``VBSVC`` with two classes.
    covariance : str, default None
        Which spreads of the fits; see ``Fit.summary``. The default is that of their tables.
    """
    models = [_binary_fit(fit) for fit in _check_fits(fits)]
    tables = [fit.summary(covariance=covariance) for fit in models]
    names = tuple(map(str, tables[0].index))
    for k, (fit, table) in enumerate(zip(models, tables, strict=True)):
        if tuple(map(str, table.index)) != names:
            raise ValueError(f"pool: fit {k} has other coefficients than the first: only fits of one model are pooled.")
        if _n_rows(fit) != _n_rows(models[0]):
            raise ValueError(
                f"pool: fit {k} has {_n_rows(fit)} rows, and the first has {_n_rows(models[0])}: fits are to be of the "
                "same rows, whose missing values were filled in differently."
            )
        if not np.isfinite(table["sd"]).all():
            name = names[int(np.argmin(np.isfinite(table["sd"])))]
            raise ValueError(f"pool: fit {k} has no standard deviation of {name!r}: ask for another covariance=….")
    estimates, errors = (np.stack([table[name].to_numpy() for table in tables]) for name in ("coefficient", "sd"))
    return rubin(names, estimates, np.square(errors), _n_rows(models[0]) - len(names))


def rubin(names: tuple[str, ...], estimates: Array, variances: Array, complete_degrees: float) -> Pooled:
    """Rubin's rules for estimates and variances (fits × coefficients).

    ``complete_degrees`` are those that a complete table would have (Barnard & Rubin 1999).
    """
    m = len(estimates)
    within, between = variances.mean(axis=0), estimates.var(axis=0, ddof=1)
    added = (1 + 1 / m) * between
    total = within + added
    fraction = np.divide(added, total, out=np.zeros_like(total), where=total > 0)
    with np.errstate(divide="ignore"):
        by_fits = (m - 1) / np.square(fraction)
    complete = max(float(complete_degrees), 1.0)
    by_rows = (complete + 1) / (complete + 3) * complete * (1 - fraction)
    degrees = 1 / (1 / by_fits + 1 / np.maximum(by_rows, 1e-300))
    ratio = np.divide(added, within, out=np.full_like(total, np.inf), where=within > 0)
    with np.errstate(invalid="ignore"):
        missing = np.where(np.isfinite(ratio), (ratio + 2 / (degrees + 3)) / (ratio + 1), 1.0)
    return Pooled(names, m, estimates.mean(axis=0), within, between, degrees, np.where(added > 0, missing, 0.0))


def _check_fits(fits: Sequence[Any]) -> list[Any]:
    models = list(fits)
    if len(models) < 2:
        raise ValueError(f"pool: at least two fits are needed; got {len(models)}.")
    return models


def _binary_fit(fit: Any) -> Fit:
    """The single fit of a binary model; raise for other objects and for several classes."""
    fits = [fit] if isinstance(fit, Fit) else getattr(fit, "fit_", None)
    if not isinstance(fits, list | tuple) or not all(isinstance(part, Fit) for part in fits):
        raise TypeError(f"pool: fits of VBSVC or Model are needed; got {fit!r}.")
    if len(fits) != 1:
        raise ValueError("pool: with several classes pool those of one class, as in [clf.fit_[0] for clf in …].")
    return fits[0]


def _n_rows(fit: Fit) -> int:
    return 0 if fit.facts is None else sum(fit.facts.rows)
