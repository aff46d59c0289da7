"""Left-out predictions and their measures, and models of the same rows compared by them."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, final

import numpy as np
from numpy.typing import NDArray

from vbsvm.base import printing
from vbsvm.base.arrays import Array

if TYPE_CHECKING:
    import pandas as pd

# Ways of leaving rows out.
APPROXIMATE, REFITTED = "approximate", "refitted"
MEASURES = ("log_loss", "balanced_error")
# How the columns of each measure are headed where they are printed in a table of their own.
HEADS = {"": "", "_se": "se", "_group_se": "group se"}
ABOUT_ROWS = (
    "se: standard error, with rows as independent units; diff: difference to the best model, with the standard error "
    "of the paired differences."
)
ABOUT_APPROXIMATION = (
    "approximate: one step from the fit to all rows, with the link from scores to probabilities and most scales of "
    "priors held. Log-losses are too small by about 1/n to 2/n, and with random effects by 4/n or more."
)
ABOUT_FOLDS = "All models are refitted in the same folds, because the approximation may be far off: {}."
ABOUT_NEW_GROUPS = (
    "Each row is predicted with the other rows of its group in the fit: this does not measure predictions for new "
    "groups. For these leave out whole groups: cross_validate(model, groups={!r}), or GroupKFold for estimators."
)
ABOUT_BOUND = (
    "elbo: comparable only between models with the same rows, labels and standardised columns. Do not choose fixed "
    "effects by it: it depends on the width of their prior, whatever the data say, and under a flat prior such as "
    "Normal(1e8) each further column costs at least ½ log 1e8, about 9."
)
# How the columns of a cross-validation are headed where they are printed.
FOLD_HEADS = {
    "log_loss": "log loss",
    "log_loss_se": "loss se",
    "balanced_error": "balanced error",
    "balanced_error_se": "error se",
    "accuracy": "correct",
    "accuracy_se": "correct se",
}


@final
@dataclass(frozen=True, slots=True, eq=False)
class Measure:
    """Weighted mean of losses over rows, and each row's deviation from it; ``counts`` are the rows' weights."""

    value: float
    deviations: Array
    counts: Array

    @property
    def se(self) -> float:
        """Standard error, with rows as independent units; a weight of k counts as k rows."""
        total = float(self.counts.sum())
        if not total > 1:
            return np.nan
        return float(np.sqrt(total / (total - 1) * (self.counts @ np.square(self.deviations))))

    def group_se(self, groups: NDArray[np.intp]) -> float:
        """Standard error with groups as independent units: deviations are summed within each of them."""
        sums = np.bincount(groups, self.counts * self.deviations)[np.unique(groups)]
        if len(sums) < 2:
            return np.nan
        return float(np.sqrt(len(sums) / (len(sums) - 1) * np.square(sums).sum()))

    def __sub__(self, other: "Measure") -> "Measure":
        """The paired difference: the same rows under two models."""
        return Measure(self.value - other.value, self.deviations - other.deviations, self.counts)


@final
@dataclass(frozen=True, slots=True, eq=False)
class LeftOutPredictions:
    """Predicted classes and log probabilities of rows by fits without them, in the order of the user's data.

    ``rows`` are the rows' numbers in the data, ``labels`` their classes, ``weights`` the numbers of rows that each
    stands for, and ``groups`` the number of each row's group, by the name of the factor. ``scheme`` says how rows were
    left out. ``bound`` is that of the fit to all rows, NaN where there is none, and ``powers`` are those of its
    likelihoods. ``method`` is "refitted" (a refit
    without each observation), "approximate" (one step from the fit to all), "approximate, 12 observations refitted" or
    "50-fold"; ``doubt`` says why the approximation alone is not reliable here, or is None; ``folds`` is their number.
    """

    scheme: str
    rows: NDArray[np.intp]
    labels: NDArray[Any]
    weights: Array
    predicted: NDArray[Any]
    log_probability: Array  # of each row's own class
    groups: Mapping[str, NDArray[np.intp]]
    bound: float = np.nan
    powers: tuple[float, ...] = ()
    method: str = ""
    doubt: str | None = None
    folds: int | None = None

    def __repr__(self) -> str:
        """How many observations there are, how they were left out, and both measures."""
        measures = {"log-loss": self.log_loss, "balanced error": self.balanced_error}
        measures_text = ", ".join(
            f"{name} {measure.value:.4f} ± {measure.se:.4f}" for name, measure in measures.items()
        )
        return f"<LeftOutPredictions of {len(self.rows)} observations, {self.method or self.scheme}: {measures_text}>"

    def take(self, which: NDArray[Any]) -> "LeftOutPredictions":
        """Select rows."""
        names = ("rows", "labels", "weights", "predicted", "log_probability")
        groups = {name: of_rows[which] for name, of_rows in self.groups.items()}
        return replace(self, groups=groups, **{name: getattr(self, name)[which] for name in names})

    @property
    def log_loss(self) -> Measure:
        """Mean of minus the log probability of the rows' own classes."""
        return self._mean(-self.log_probability)

    @property
    def accuracy(self) -> Measure:
        """Accuracy: proportion of correctly classified rows."""
        return self._mean(1.0 - self._errors)

    @property
    def error(self) -> Measure:
        """Misclassification rate."""
        return self._mean(self._errors)

    @property
    def balanced_error(self) -> Measure:
        """Balanced error: mean over the classes of their misclassification rates."""
        classes, codes = np.unique(self.labels, return_inverse=True)
        totals = np.bincount(codes, self.weights)
        shares = np.bincount(codes, self.weights * self._errors) / totals
        deviations = (self._errors - shares[codes]) / (len(classes) * totals[codes])
        return Measure(float(shares.mean()), deviations, self.weights)

    @property
    def _errors(self) -> Array:
        return (self.predicted != self.labels).astype(np.float64)

    def _mean(self, losses: Array) -> Measure:
        total = float(self.weights.sum())
        value = float(self.weights @ losses) / total
        return Measure(value, (losses - value) / total, self.weights)


@final
@dataclass(frozen=True, eq=False, repr=False)
class CrossValidation:
    """Cross-validated predictions and measures; ``compare_models`` compares several of them.

    ``table`` has log-loss, balanced error and accuracy by fold and in all, with standard errors; with groups, these are
    taken as independent units, else rows are. ``predictions`` has a row for each row left out: its fold, outcome,
    predicted class, and the probability of the class in ``attrs["note"]``.
    """

    formula: str
    table: "pd.DataFrame"
    predictions: "pd.DataFrame"
    note: str
    _left_out: LeftOutPredictions

    def left_out_predictions(self) -> LeftOutPredictions:
        """The same predictions as ``compare_models`` takes them."""
        return self._left_out

    def __repr__(self) -> str:
        """Formula, table and a note on its standard errors."""
        table = self.table.rename(columns=FOLD_HEADS)
        return f"{printing.visible(self.formula)}\n\n{printing.table(table)}\n\n{printing.wrap_text(self.note)}"

    def _repr_html_(self) -> str:
        """The same in notebooks."""
        return (
            printing.html_frame(self.formula, self.table.rename(columns=FOLD_HEADS), len(self.table))
            + f"<p>{printing.html_text(self.note)}</p>"
        )


def measures_by_fold(left_out: LeftOutPredictions, folds: NDArray[np.intp], groups: str | None) -> "pd.DataFrame":
    """Measures by fold and in all; the balanced error is NaN in a fold that lacks a class."""
    import pandas as pd

    names = [*map(str, np.unique(folds)), "all"]
    parts = [*(left_out.take(folds == fold) for fold in np.unique(folds)), left_out]
    lines = []
    for part in parts:
        line: dict[str, float] = {"rows": len(part.rows)}
        for name in (*MEASURES, "accuracy"):
            measure = getattr(part, name)
            se = measure.se if groups is None else measure.group_se(part.groups[groups])
            line |= {name: measure.value, f"{name}_se": se}
        if len(np.unique(part.labels)) < len(np.unique(left_out.labels)):
            line |= {"balanced_error": np.nan, "balanced_error_se": np.nan}
        lines.append(line)
    return pd.DataFrame(lines, index=pd.Index(names, name="fold"))


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
        texts = [printing.table(self._shown(measure)) for measure in MEASURES]
        if "elbo" in self.table:
            texts.append(printing.table(self.table.filter(items=["elbo"])))
        return "\n\n".join([*texts, *(printing.wrap_text(note) for note in self.notes)])

    def _repr_html_(self) -> str:
        """The same in notebooks."""
        parts = [printing.html_frame("", self._shown(measure), len(self.table)) for measure in MEASURES]
        if "elbo" in self.table:
            parts.append(printing.html_frame("", self.table.filter(items=["elbo"]), len(self.table)))
        return "".join([*parts, *(f"<p>{printing.html_text(note)}</p>" for note in self.notes)])

    def _shown(self, measure: str) -> "pd.DataFrame":
        """The columns of one measure under short heads."""
        heads = {}
        for part, name in (("", measure.replace("_", " ")), ("_difference", "diff")):
            heads |= {f"{measure}{part}{end}": f"{name} {head}".strip() for end, head in HEADS.items()}
        heads |= {f"{measure}{end}": head for end, head in HEADS.items() if end}
        return self.table.filter(items=list(heads)).rename(columns=heads)


def compare_models(
    models: Mapping[str, Any], groups: str | None = None, *, refits: int | None = None
) -> ModelComparison:
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
    refits : int, default None
        At most so many refits of each fit. With no more rows than that, each fit is repeated without each row. Else
        predictions are approximate, with refits for rows of high leverage; or all models are refitted in the same
        folds, at most 50, where the approximation may be far off for one of them. 0 means none, and None 200, or 10
        where rows × coefficients exceed 50 000.

    Returns
    -------
    ModelComparison
        ``table`` has a row for each model, the one with the smallest log-loss first, and the differences to it, with
        standard errors of the paired differences; ``notes`` say how to read it.

    Notes
    -----
    The notes say how rows were left out. In a model with groups, the other rows of the group stay in the fit, so this
    does not measure predictions for new groups: compare results of ``cross_validate(model, groups=…)`` for these. A
    difference of less than two of its standard errors may well be chance.
    """
    by_name = _collect(models, refits)
    _check_same_rows(by_name)
    name, members = _groups(by_name, groups)
    order = sorted(by_name, key=lambda key: by_name[key].log_loss.value)
    table, first = _table(by_name, order, members), by_name[order[0]]
    notes = [f"{len(first.rows)} rows, left out by {first.scheme}. {ABOUT_ROWS}"]
    if members is not None:
        notes.append(f"group se: with the {len(np.unique(members))} groups of {name} as independent units.")
    notes += _about_methods(by_name)
    if first.method and name is not None:
        notes.append(ABOUT_NEW_GROUPS.format(name))
    if "elbo" in table and len({preds.powers for preds in by_name.values() if preds.powers}) > 1:
        table = table.drop(columns="elbo")
        notes.append("ELBOs are not shown: those of fits with different likelihood powers are not comparable.")
    elif "elbo" in table:
        notes.append(ABOUT_BOUND)
    return ModelComparison(table, tuple(notes))


def _about_methods(by_name: Mapping[str, LeftOutPredictions]) -> Iterator[str]:
    """Notes on how rows were left out, by model if methods differ."""
    methods: dict[str, list[str]] = {}
    for key, preds in by_name.items():
        methods.setdefault(preds.method, []).append(key)
    if not all(methods):
        return
    named = "; ".join(f"{method} ({', '.join(keys)})" for method, keys in methods.items())
    yield f"Method: {named if len(methods) > 1 else next(iter(methods))}."
    doubts = dict.fromkeys(f"{key}: {preds.doubt}" for key, preds in by_name.items() if preds.doubt is not None)
    if any(method.startswith(APPROXIMATE) for method in methods):
        yield ABOUT_APPROXIMATION + "".join(f" It may be far off for {preds}." for preds in doubts)
    elif doubts:
        yield ABOUT_FOLDS.format("; ".join(doubts))


def _table(
    predictions: Mapping[str, LeftOutPredictions], order: list[str], members: NDArray[np.intp] | None
) -> "pd.DataFrame":
    """One row for each model; differences are to the best one."""
    import pandas as pd

    lines = []
    for key in order:
        line: dict[str, float] = {}
        for measure in MEASURES:
            of_model, of_best = (getattr(predictions[name], measure) for name in (key, order[0]))
            line |= _columns(measure, of_model, members)
            line |= _columns(f"{measure}_difference", of_model - of_best, members)
        lines.append(line | ({} if np.isnan(predictions[key].bound) else {"elbo": predictions[key].bound}))
    return pd.DataFrame(lines, index=pd.Index(order, name="model"))


def _columns(name: str, measure: Measure, members: NDArray[np.intp] | None) -> dict[str, float]:
    columns = {name: measure.value, f"{name}_se": measure.se}
    return columns if members is None else columns | {f"{name}_group_se": measure.group_se(members)}


def _collect(models: Any, refits: int | None) -> dict[str, LeftOutPredictions]:
    """Left-out predictions by model name; all in the same folds if one model needs folds."""
    if not isinstance(models, Mapping):
        kind = type(models).__name__
        raise TypeError(
            f"compare_models takes a dict of models by name: compare_models({{'a': a, 'b': b}}); got {kind}."
        )
    if not models:
        raise ValueError("compare_models: the dict is empty; give it models by name, such as {'a': fit1, 'b': fit2}.")
    for name, model in models.items():
        if not hasattr(model, "left_out_predictions") or isinstance(model, type):
            raise TypeError(
                f"compare_models takes fits of a Model, fitted estimators or results of cross_validate; {name!r} "
                f"is {type(model).__name__}."
            )
    by_name = {str(name): _predict(name, model, refits=refits) for name, model in models.items()}
    folds = min((model.folds for model in by_name.values() if model.folds is not None), default=None)
    if folds is not None:
        others = {name: model for name, model in models.items() if by_name[str(name)].folds != folds}
        by_name |= {str(name): _predict(name, model, refits=refits, folds=folds) for name, model in others.items()}
    return by_name


def _predict(name: Any, model: Any, **settings: int | None) -> LeftOutPredictions:
    """Left-out predictions of a model; settings do not apply to a cross-validation."""
    try:
        return model.left_out_predictions(**({} if isinstance(model, CrossValidation) else settings))
    except ValueError as error:
        raise ValueError(f"compare_models, model {name!r}: {error}") from error


def _check_same_rows(by_name: Mapping[str, LeftOutPredictions]) -> None:
    """Raise if the left-out rows of the models cannot be paired."""
    (first, one), *others = by_name.items()
    for name, other in others:
        if one.scheme != other.scheme:
            raise ValueError(
                f"compare_models: {first!r} is by {one.scheme} and {name!r} by {other.scheme}; leave rows out in "
                "the same way."
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
            f"compare_models: {first!r} and {name!r} {what}. All models must be of the same rows in the same "
            "order, with the same outcome and weights: take out rows with missing values before all fits."
        )


def _groups(by_name: Mapping[str, LeftOutPredictions], name: str | None) -> tuple[str | None, NDArray[np.intp] | None]:
    """Name of the grouping factor for clustered standard errors, and the group of each row; None without groups."""
    factors = {name: members for preds in by_name.values() for name, members in preds.groups.items()}
    if name is not None and name not in factors:
        raise ValueError(f"compare_models: no model has the groups {name!r}; there are {list(factors)}.")
    if not factors:
        return None, None
    name = name if name is not None else max(factors, key=lambda preds: len(np.unique(factors[preds])))
    return name, factors[name]
