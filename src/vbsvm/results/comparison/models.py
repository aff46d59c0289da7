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
# Headings of the columns of each measure in printed tables.
HEADS = {"": "", "_se": "se", "_group_se": "group se"}
ABOUT_ROWS = (
    "se: standard error, with observations as independent units; diff: difference to the best model, with the standard "
    "error of the paired differences."
)
ABOUT_APPROXIMATION = (
    "approximate: one Newton step from the fit to all observations, with the calibration of probabilities and most "
    "prior scales fixed. Log losses are too small by about 1/n to 2/n, and with random effects by 4/n or more."
)
ABOUT_FOLDS = "All models are refitted in the same folds, because the approximation may be inaccurate: {}."
ABOUT_NEW_GROUPS = (
    "Other observations of the same level stay in the training set: this does not measure predictions for new levels. "
    "For these use cross_validate(model, groups={!r}), or GroupKFold for estimators."
)
ABOUT_BOUND = (
    "elbo: comparable only between models of the same observations, labels and standardised columns. Do not select "
    "fixed effects by it: it depends on the variance of their prior, and under a flat prior such as Normal(1e8) each "
    "further column lowers it by at least ½ log 1e8, about 9."
)
# Headings of the columns of a printed cross-validation.
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
    """Weighted mean loss, and each observation's deviation from it; ``counts`` are the weights."""

    value: float
    deviations: Array
    counts: Array

    @property
    def se(self) -> float:
        """Standard error, with observations as independent units; a weight of k counts as k."""
        total = float(self.counts.sum())
        if not total > 1:
            return np.nan
        return float(np.sqrt(total / (total - 1) * (self.counts @ np.square(self.deviations))))

    def group_se(self, groups: NDArray[np.intp]) -> float:
        """Cluster-robust standard error: deviations are summed within groups."""
        sums = np.bincount(groups, self.counts * self.deviations)[np.unique(groups)]
        if len(sums) < 2:
            return np.nan
        return float(np.sqrt(len(sums) / (len(sums) - 1) * np.square(sums).sum()))

    def __sub__(self, other: "Measure") -> "Measure":
        """Paired difference of two models of the same observations."""
        return Measure(self.value - other.value, self.deviations - other.deviations, self.counts)


@final
@dataclass(frozen=True, slots=True, eq=False)
class LeftOutPredictions:
    """Out-of-sample predicted classes and log probabilities, in the order of the data.

    ``rows`` are row numbers in the data, ``labels`` the classes, ``weights`` the frequency weights, and ``groups`` the
    codes of grouping factors by name. ``scheme`` is the kind of cross-validation. ``bound`` is the ELBO of the fit to
    all rows, or NaN, and ``powers`` its likelihood powers. ``method`` is "refitted" (a refit without each observation),
    "approximate" (one step from the fit to all), "approximate, 12 observations refitted" or "50-fold"; ``doubt`` says
    why the approximation alone is unreliable here, or is None; ``folds`` is their number.
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
        """Number of observations, method, and both measures."""
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
    """Compare models of the same data by leave-one-out or cross-validated log loss and balanced error.

    Parameters
    ----------
    models : dict
        By name: fits of a ``Model``, fitted ``VBSVC`` estimators, or results of ``cross_validate``, of the same rows in
        the same order, with the same outcome and weights. Fits must be variational and have their training data, which
        those loaded from a file have not; Gibbs fits can be cross-validated.
    groups : str, default None
        The grouping factor of the cluster-robust standard errors ``…_group_se``. None means the one with the most
        levels, if any.
    refits : int, default None
        Maximal number of refits of each model. With no more rows than that, leave-one-out is exact. Else predictions
        are approximate, with refits for observations of high leverage; or all models are refitted in the same folds, at
        most 50, if the approximation may be inaccurate for one of them. 0 means none, and None 200, or 10 if rows ×
        coefficients exceed 50 000.

    Returns
    -------
    ModelComparison
        ``table`` has a row for each model, that with the smallest log loss first, and the differences to it, with
        standard errors of the paired differences; ``notes`` explain it.

    Notes
    -----
    With random effects, other observations of the same level stay in the training set, so this does not measure
    predictions for new levels: compare results of ``cross_validate(model, groups=…)`` for these. A difference of less
    than two standard errors is weak evidence.
    """
    by_name = _collect(models, refits)
    _check_same_rows(by_name)
    name, members = _groups(by_name, groups)
    order = sorted(by_name, key=lambda key: by_name[key].log_loss.value)
    table, first = _table(by_name, order, members), by_name[order[0]]
    notes = [f"{len(first.rows)} observations, {first.scheme}. {ABOUT_ROWS}"]
    if members is not None:
        notes.append(f"group se: clustered on the {len(np.unique(members))} levels of {name}.")
    notes += _about_methods(by_name)
    if first.method and name is not None:
        notes.append(ABOUT_NEW_GROUPS.format(name))
    if "elbo" in table and len({preds.powers for preds in by_name.values() if preds.powers}) > 1:
        table = table.drop(columns="elbo")
        notes.append("ELBOs of fits with different likelihood powers are not comparable and not shown.")
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
        yield ABOUT_APPROXIMATION + "".join(f" It may be inaccurate for {preds}." for preds in doubts)
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
    """Raise unless the predictions of all models are of the same rows."""
    (first, one), *others = by_name.items()
    for name, other in others:
        if one.scheme != other.scheme:
            raise ValueError(
                f"compare_models: {first!r} has predictions by {one.scheme}, {name!r} by {other.scheme}: use "
                "the same for both."
            )
        if len(one.rows) != len(other.rows):
            what = f"have {len(one.rows)} and {len(other.rows)} rows"
        elif (one.rows != other.rows).any():
            what = "have predictions of different rows"
        elif (one.labels.astype(object) != other.labels.astype(object)).any():
            what = "have different outcomes"
        elif (one.weights != other.weights).any():
            what = "have different weights"
        else:
            continue
        raise ValueError(
            f"compare_models: {first!r} and {name!r} {what}. All models must be of the same rows in the same "
            "order, with the same outcome and weights: drop rows with missing values before all fits."
        )


def _groups(by_name: Mapping[str, LeftOutPredictions], name: str | None) -> tuple[str | None, NDArray[np.intp] | None]:
    """Name of the grouping factor for clustered standard errors, and the group of each row; None without groups."""
    factors = {name: members for preds in by_name.values() for name, members in preds.groups.items()}
    if name is not None and name not in factors:
        raise ValueError(f"compare_models: no model has the grouping factor {name!r}; there are {list(factors)}.")
    if not factors:
        return None, None
    name = name if name is not None else max(factors, key=lambda preds: len(np.unique(factors[preds])))
    return name, factors[name]
