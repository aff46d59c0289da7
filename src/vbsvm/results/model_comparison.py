"""Models of the same rows beside each other, by what each predicts of rows that it was not fitted to."""

from collections.abc import Mapping
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Any, Protocol, final, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from vbsvm.base import printing
from vbsvm.results import leave_one_out
from vbsvm.results.left_out_predictions import LeftOutPredictions, Measure

if TYPE_CHECKING:
    import pandas as pd

MEASURES = ("log_loss", "balanced_error")
# How the columns of each measure are headed where they are printed in a table of their own.
HEADS = {"": "", "_se": "se", "_group_se": "group se"}
ABOUT_ROWS = (
    "se: standard error, with rows as independent units; diff: difference to the best model, with the standard error "
    "of the paired differences."
)
ABOUT_LINK = (
    "Scores without a row are approximate, with the scales of priors held, and the link from scores to probabilities "
    "was learned from the same rows: log-losses are slightly too small, by about 1/n."
)
ABOUT_NEW_GROUPS = (
    "A row is predicted with the other rows of its group at hand: this does not speak of new groups. For these leave "
    "out whole groups: cross_validate(model, groups={!r}), or GroupKFold for estimators. Models with groups are also "
    "flattered, as their scales are held: by a few times 1/n, and sometimes by more. Confirm a difference between "
    "models with and without groups by cross_validate, which fits again."
)
ABOUT_BOUND = (
    "elbo: comparable only between models with the same rows, labels and standardised columns. Do not choose fixed "
    "effects by it: under a flat prior such as Normal(1e8), the default of fixed effects, it depends on the prior's "
    "width, and the price of each further column is at least ½ log 1e8, about 9."
)


@runtime_checkable
class Predicted(Protocol):
    """Fits, estimators and cross-validations: what knows predictions of rows by fits without them."""

    def left_out_predictions(self) -> LeftOutPredictions:
        """Predictions of each row by a fit without it."""
        ...


@final
@dataclass(frozen=True, eq=False, repr=False)
class ModelComparison:
    """A table with a row for each model, the one with the smallest log-loss first, and notes on how to read it.

    Columns: ``log_loss`` and ``balanced_error``, each with its standard error (``…_se``), its difference to the best
    model (``…_difference``) and that difference's own standard error (``…_difference_se``); where there are groups,
    standard errors with these as independent units (``…_group_se``); and the bound (``elbo``).
    """

    table: "pd.DataFrame"
    notes: tuple[str, ...]

    def __repr__(self) -> str:
        """The table, measure by measure, and the notes."""
        shown = [printing.table(self._shown(measure)) for measure in MEASURES]
        if "elbo" in self.table:
            shown.append(printing.table(self.table.filter(items=["elbo"])))
        return "\n\n".join([*shown, *(printing.wrapped(note) for note in self.notes)])

    def _repr_html_(self) -> str:
        """The same in notebooks."""
        shown = [printing.html_frame("", self._shown(measure), len(self.table)) for measure in MEASURES]
        if "elbo" in self.table:
            shown.append(printing.html_frame("", self.table.filter(items=["elbo"]), len(self.table)))
        return "".join([*shown, *(f"<p>{escape(note)}</p>" for note in self.notes)])

    def _shown(self, measure: str) -> "pd.DataFrame":
        """The columns of one measure under short heads."""
        heads = {}
        for part, name in (("", measure.replace("_", " ")), ("_difference", "diff")):
            heads |= {f"{measure}{part}{end}": f"{name} {head}".strip() for end, head in HEADS.items()}
        heads |= {f"{measure}{end}": head for end, head in HEADS.items() if end}
        return self.table.filter(items=list(heads)).rename(columns=heads)


def compare_models(models: Mapping[str, Any], groups: str | None = None) -> ModelComparison:
    """Compare models of the same rows by what they predict of rows left out: log-loss and balanced error.

    Parameters
    ----------
    models : dict
        By name: fits of a ``Model``, fitted ``VBSVC`` estimators, or results of ``cross_validate``. All must be of the
        same rows in the same order, with the same outcome and weights. Fits need their training rows, which
        those loaded from a file do not have, and variational Bayes; samplers can be cross-validated.
    groups : str, default None
        The factor whose groups are taken as independent units in the columns ``…_group_se``. None means the one with
        the most groups, where there is one.

    Returns
    -------
    ModelComparison
        ``table`` has a row for each model, the one with the smallest log-loss first, and the differences to it, with
        standard errors of the paired differences; ``notes`` say how to read it.

    Notes
    -----
    Fits are compared by leaving out one row at a time, to first order and without refits. In a model with groups, the
    other rows of the group stay in the fit, so this does not speak of new groups: compare results of
    ``cross_validate(model, groups=…)`` for these. A difference of less than two of its standard errors says little.
    """
    found = _read(models)
    _require_same_rows(found)
    name, members = _groups(found, groups)
    order = sorted(found, key=lambda key: found[key].log_loss.value)
    table, first = _table(found, order, members), found[order[0]]
    notes = [f"{len(first.rows)} rows, left out by {first.scheme}. {ABOUT_ROWS}"]
    if members is not None:
        notes.append(f"group se: with the {len(np.unique(members))} groups of {name} as independent units.")
    if first.scheme == leave_one_out.SCHEME:
        notes.append(ABOUT_LINK)
        if name is not None:
            notes.append(ABOUT_NEW_GROUPS.format(name))
    if "elbo" in table:
        notes.append(ABOUT_BOUND)
    return ModelComparison(table, tuple(notes))


def _table(
    found: Mapping[str, LeftOutPredictions], order: list[str], members: NDArray[np.intp] | None
) -> "pd.DataFrame":
    """One row for each model; differences are to the best one."""
    import pandas as pd

    lines = []
    for key in order:
        line: dict[str, float] = {}
        for measure in MEASURES:
            own, of_best = (getattr(found[one], measure) for one in (key, order[0]))
            line |= _columns(measure, own, members)
            line |= _columns(f"{measure}_difference", own - of_best, members)
        lines.append(line | ({} if np.isnan(found[key].bound) else {"elbo": found[key].bound}))
    return pd.DataFrame(lines, index=pd.Index(order, name="model"))


def _columns(name: str, measure: Measure, members: NDArray[np.intp] | None) -> dict[str, float]:
    found = {name: measure.value, f"{name}_se": measure.se}
    return found if members is None else found | {f"{name}_group_se": measure.group_se(members)}


def _read(models: Any) -> dict[str, LeftOutPredictions]:
    """The left-out predictions of each model, by name."""
    if not isinstance(models, Mapping):
        raise TypeError(f"compare_models takes a dict of models by name; got {type(models).__name__}.")
    if not models:
        raise ValueError("compare_models: the dict is empty; give it models by name, such as {'a': fit1, 'b': fit2}.")
    found = {}
    for name, one in models.items():
        if not isinstance(one, Predicted) or isinstance(one, type):
            raise TypeError(
                f"compare_models takes fits of a Model, fitted estimators or results of cross_validate; {name!r} is "
                f"{type(one).__name__}."
            )
        try:
            found[str(name)] = one.left_out_predictions()
        except ValueError as error:
            raise ValueError(f"compare_models, model {name!r}: {error}") from error
    return found


def _require_same_rows(found: Mapping[str, LeftOutPredictions]) -> None:
    """Refuse models whose left-out rows can't be paired."""
    (first, one), *others = found.items()
    for name, other in others:
        if one.scheme != other.scheme:
            raise ValueError(
                f"compare_models: {first!r} is by {one.scheme} and {name!r} by {other.scheme}; leave rows out in the "
                "same way."
            )
        if len(one.rows) != len(other.rows):
            what = f"have {len(one.rows)} and {len(other.rows)} rows"
        elif (one.rows != other.rows).any():
            what = "leave out different rows of their data"
        elif (one.labels.astype(object) != other.labels.astype(object)).any():
            what = "have different outcomes"
        elif (one.weights != other.weights).any():
            what = "have different weights"
        else:
            continue
        raise ValueError(
            f"compare_models: {first!r} and {name!r} {what}. All models must be of the same rows in the same order, "
            "with the same outcome and weights: take out rows with missing values before all fits."
        )


def _groups(found: Mapping[str, LeftOutPredictions], asked: str | None) -> tuple[str | None, NDArray[np.intp] | None]:
    """The factor whose groups are taken as independent, and the group of each row."""
    known = {name: members for one in found.values() for name, members in one.groups.items()}
    if asked is not None and asked not in known:
        raise ValueError(f"compare_models: no model has the groups {asked!r}; there are {list(known)}.")
    if not known:
        return None, None
    name = asked if asked is not None else max(known, key=lambda one: len(np.unique(known[one])))
    return name, known[name]
