"""``vbsvm fit``: to a table in memory, or to files that are read piece by piece."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, final

import click

from vbsvm.base.printing import visible, wrap_text
from vbsvm.cli import tables
from vbsvm.cli.__init__ import say
from vbsvm.cli.models import description, fits_of

if TYPE_CHECKING:
    from vbsvm import Files, Gibbs, Variational
    from vbsvm.api.estimator import Classifier
    from vbsvm.results.fit import Fit

# A text column with more different values than this is a name or an identifier, not a category; an outcome of numbers
# with more than the second is a measurement, not a class.
MAX_LEVELS, MAX_CLASSES = 100, 30
# A text column with fewer distinct words than this among its numbers is probably numeric.
MAX_WORDS = 4


@final
@dataclass(frozen=True)
class Request:
    """Options of ``vbsvm fit``, except those about the data file."""

    formula: str | None
    target: str | None
    group: str | None
    dropped: tuple[str, ...]
    weights: str | None
    positive: str | None
    balanced: bool
    drop_missing_outcome: bool
    select: bool
    inference: "Variational | Gibbs"
    seed: int
    likelihood: str | None

    @property
    def uses(self) -> dict[str, Sequence[str | None]]:
        """The columns that each option names."""
        return {"--target": [self.target], "--group": [self.group], "--weights": [self.weights], "--drop": self.dropped}

    def classifier(self) -> "Classifier":
        """The estimator that has this likelihood; the support vector machine unless it is said."""
        from vbsvm import VBSVC, LaplaceZero, VBLogistic

        estimator = VBLogistic if self.likelihood == "logistic" else VBSVC
        prior, class_weight = LaplaceZero() if self.select else None, "balanced" if self.balanced else None
        return estimator(prior, self.inference, group=self.group, class_weight=class_weight, random_state=self.seed)

    def fit_formula(self, formula: str, data: Any, positive: Any, weights: Any) -> "Fit":
        """The fit of a formula; where it is not the user's, with the priors that the estimator would have."""
        from vbsvm import HalfT, LaplaceZero, Model, Ridge

        priors: Any = None
        if self.select:
            priors = {"fixed": LaplaceZero()}
        elif self.formula is None:
            priors = {"fixed": Ridge() if self.likelihood == "hinge" else HalfT()}
        likelihood: dict[str, Any] = {} if self.likelihood is None else {"likelihood": self.likelihood}
        model = Model(formula, data, priors, positive=positive, weights=weights, **likelihood)
        result = model.fit(self.inference, random_state=self.seed)
        if result.interrupted:
            raise KeyboardInterrupt
        return result


@click.command()
@click.argument("data")
@click.option("--formula", metavar="TEXT", help='The model, such as "y ~ a + s(b) + (1 | g)".')
@click.option("--target", metavar="COLUMN", help="Instead of a formula: the column to predict from all the others.")
@click.option("--group", metavar="COLUMN", help="With --target: the column with the group of each row.")
@click.option("--drop", "dropped", metavar="COLUMN", multiple=True, help="With --target: a column to leave out.")
@click.option("--weights", metavar="COLUMN", help="A column of weights; a row of weight k counts as k rows.")
@click.option("--balanced", is_flag=True, help="Give each class the same total weight, for example if one is rare.")
@click.option("--positive", metavar="LABEL", help="The modelled class, versus all others.")
@click.option("--drop-missing-outcome", is_flag=True, help="Leave out rows whose outcome is missing.")
@click.option(
    "--likelihood",
    type=click.Choice(["logistic", "hinge"]),
    help=(
        "Logistic regression, or a support vector machine (hinge).  [default: logistic with --formula, text columns "
        "or --positive; else hinge]"
    ),
)
@click.option("--select", is_flag=True, help="Select predictors: infer the inclusion probability of each.")
@click.option(
    "--max-iter", type=click.IntRange(1), help="Limit of the iterations of variational Bayes.  [default: 2000]"
)
@click.option("--gibbs", is_flag=True, help="Sample from the posterior instead of using variational Bayes.")
@click.option("--draws", type=click.IntRange(1), help="With --gibbs: draws to keep from each chain.  [default: 5000]")
@click.option("--tune", type=click.IntRange(0), help="With --gibbs: sweeps to discard first.  [default: 1000 or 5000]")
@click.option("--chains", type=click.IntRange(1), help="With --gibbs: the number of chains.  [default: 4]")
@click.option("--seed", type=click.IntRange(0, 2**32 - 1), default=0, show_default=True, help="Seed for --gibbs.")
@tables.options
@tables.memory_option
@click.option("--cache", metavar="FOLDER", help="Keep encoded rows in FOLDER, for later fits of the same files.")
@tables.output_option("Save the model to FILE; without it, only the summary is shown.")
def fit(
    data: str,
    *,
    sep: str | None,
    decimal: str | None,
    memory_limit: str,
    cache: str | None,
    out: str | None,
    force: bool,
    **options: Any,
) -> None:
    """Fit a model to the table DATA (.csv, .tsv, .parquet, .arrow; - is CSV from stdin), show it, and save it.

    Nothing needs tuning: penalties and variances are inferred. Empty cells are missing values, which are inferred too.
    Text columns become categories. DATA may also be a folder of .parquet or .csv files, or a pattern such as
    "data/*.parquet": these, and large files, need not fit in memory.

    \b
    Examples:
      vbsvm fit visits.csv --formula "outcome ~ visit * treatment + (1 | patient)" --out model.vbsvm
      vbsvm fit visits.csv --formula "outcome ~ visit * treatment + (1 | patient)" --likelihood hinge
      vbsvm fit patients.csv --target disease --drop name --out model.vbsvm
      vbsvm fit mails.parquet --target class --select
      vbsvm fit patients.csv --target disease --likelihood logistic
      vbsvm fit visits.csv --target outcome --group patient --gibbs --draws 2000 --tune 1000
      vbsvm fit "clicks/*.parquet" --target clicked --memory-limit 2GB --out model.vbsvm
    """
    request = _request(**options)
    tables.check_output_path(out, force=force)
    files = tables.piecewise_files(data, memory_limit, sep, decimal, cache)
    if files is None:
        model = _fit_table(tables.read(data, sep=sep, decimal=decimal), request)
    else:
        model = _fit_files(files, request)
    head, *rest = description(model).split("\n\n")
    if request.positive is None and len(fits_of(model)) == 1:
        named = f'Modelled class: "{visible(fits_of(model)[0].classes[1])}"'
        head = wrap_text(" ".join(head.split()).replace(f"{named}.", f"{named} (choose with --positive)."))
    say("\n\n".join([head, *rest]))
    if out is not None:
        model.save(out, overwrite=force)
        say(f"Wrote {out}.", err=True)


def _request(
    *, gibbs: bool, draws: int | None, tune: int | None, chains: int | None, max_iter: int | None, **rest: Any
) -> Request:
    from vbsvm import Gibbs, Variational

    if (rest["formula"] is None) == (rest["target"] is None):
        raise click.UsageError("Give either --formula or --target.")
    if rest["formula"] is not None and (rest["group"] is not None or rest["dropped"]):
        raise click.UsageError("--group and --drop need --target; in a formula write groups as in y ~ x + (1 | group).")
    settings = {"draws": draws, "tune": tune, "chains": chains}
    given: dict[str, Any] = {name: value for name, value in settings.items() if value is not None}
    if given and not gibbs:
        raise click.UsageError(f"--{next(iter(given))} needs --gibbs.")
    if gibbs and max_iter is not None:
        raise click.UsageError("--max-iter is for variational Bayes: leave out --gibbs.")
    variational = Variational() if max_iter is None else Variational(max_iter=max_iter)
    return Request(**rest, inference=Gibbs(**given) if gibbs else variational)


def _fit_table(frame: Any, request: Request) -> "Fit | Classifier":
    tables.check_columns(frame.columns, [request.weights], "--weights")
    if request.weights is not None and not _is_numeric(frame[request.weights]):
        raise click.ClickException(f"--weights: column {request.weights!r} holds text, but weights must be numbers.")
    if request.formula is not None:
        from vbsvm.design.formula import syntax

        parts = syntax.read(request.formula, list(frame.columns), request.weights)
        outcome, labels = parts.outcome, {parts.outcome, *(name for term in parts.groups for name in term.columns)}
        frame = frame[[name for name in frame.columns if name in (*parts.columns, request.weights)]]
    else:
        outcome, labels, uses = str(request.target), {str(request.target), str(request.group)}, request.uses
        for option, names in uses.items():
            tables.check_columns(frame.columns, names, option)
        _check_one_use(uses)
        frame = frame.drop(columns=list(request.dropped))
    frame = tables.with_plain_numbers(frame, labels)
    _check_classes(frame[outcome], request.positive)
    frame = tables.with_outcome(frame, outcome, drop=request.drop_missing_outcome)
    with tables.file_row_numbers(frame.index):
        frame = frame.reset_index(drop=True)
        if request.formula is not None:
            return _fit_by_formula(frame, request.formula, outcome, request)
        return _fit_by_target(frame, outcome, request)


def _fit_by_target(frame: Any, target: str, request: Request) -> "Fit | Classifier":
    """The estimator of all other columns, or where some are text the fit of a formula."""
    inputs = _inputs(frame.columns, target, request)
    text = [name for name in inputs if not _is_numeric(frame[name])]
    if not text and request.positive is None:
        columns = inputs if request.group is None else [*inputs, request.group]
        weights = None if request.weights is None else frame[request.weights]
        return request.classifier().fit(frame[columns], frame[target], sample_weight=weights)
    for name in text:
        _check_category(frame[name])
    return _fit_by_formula(frame, _formula_of(target, ["."], text, request), target, request)


def _inputs(columns: Sequence[str], target: str, request: Request) -> list[str]:
    """The predictor columns; an error if there are none."""
    inputs = [name for name in columns if name not in (target, request.group, request.weights)]
    if not inputs:
        raise click.ClickException(f"There is no column other than {target!r} to predict it from.")
    return inputs


def _fit_by_formula(frame: Any, formula: str, outcome: str, request: Request) -> "Fit":
    levels = sorted(frame[outcome].unique().tolist(), key=str)
    given, positive = request.positive, None
    if given is not None:
        positive = next((level for level in levels if _is_label(level, given)), None)
        if positive is None:
            raise click.ClickException(
                f"--positive: {given!r} is not a value of {outcome!r}; its values are {tables.join_names(levels)}."
            )
    elif len(levels) > 2:
        several = "there are text columns. Several classes need numeric columns: leave text out with --drop"
        if request.formula is not None:
            several = "a formula takes two: use --target, which takes more"
        raise click.ClickException(
            f"{outcome!r} has {len(levels)} classes, and {several}, or set one class against the rest, as with "
            f"--positive {levels[0]}"
        )
    weights: Any = request.weights
    if request.balanced:
        weights = _balanced(frame, frame[outcome] == (levels[-1] if positive is None else positive), request.weights)
        if request.weights is not None:
            frame, weights = frame.assign(**{request.weights: weights}), request.weights
    return request.fit_formula(formula, frame, positive, weights)


def _balanced(frame: Any, side: Any, column: str | None) -> Any:
    """Weights of the rows, multiplied so that both sides have the same sum; faulty ones are left to the model."""
    import numpy as np
    import pandas as pd

    weights = pd.Series(1.0, frame.index) if column is None else frame[column].astype(np.float64)
    sums = np.array([weights[~side].sum(), weights[side].sum()])
    if not (sums > 0).all():
        return weights
    return weights * (sums.sum() / (2 * sums))[side.to_numpy(dtype=np.intp)]


def _is_label(level: Any, given: str) -> bool:
    """Whether a class equals the text of an option, as text or as a number."""
    try:
        return str(level) == given or (not isinstance(level, str) and level == float(given))
    except ValueError:
        return False


def _check_one_use(columns: dict[str, Sequence[str | None]]) -> None:
    """Reject a column that is asked for in two ways."""
    uses: dict[str, str] = {}
    for option, names in columns.items():
        for name in names:
            if name is not None and uses.setdefault(name, option) != option:
                raise click.UsageError(f"Column {name!r} is given to both {uses[name]} and {option}.")


def _check_classes(outcome: Any, positive: str | None) -> None:
    """Reject an outcome that is measured, and say how it becomes two classes."""
    values = outcome.dropna().unique()
    if outcome.dtype.kind not in "iuf" or len(values) <= 2:
        return
    if (values % 1 != 0).any() or (len(values) > MAX_CLASSES and positive is None):
        low, high = values.min(), values.max()
        threshold = 0 if low < 0 < high else outcome.median()
        raise click.ClickException(
            f"The outcome {outcome.name!r} is continuous: {len(values)} different values from {low:g} to {high:g}. "
            f"Classes are needed: add a column such as {outcome.name} > {threshold:g} to the table, and predict that "
            "one."
        )


def _is_numeric(column: Any) -> bool:
    return column.dtype.kind in "biuf" or all(isinstance(value, bool) for value in column.dropna())


def _check_category(column: Any) -> None:
    """Reject text of very many kinds; say so where a sign for missing values made text of a column of numbers."""
    import pandas as pd

    observed = column.dropna()
    words = observed[pd.isna(pd.to_numeric(observed, errors="coerce"))].unique()
    if len(words) and len(words) < MAX_WORDS and len(words) < 0.5 * observed.nunique():
        listed = ", ".join(map(repr, words))
        say(
            f"Note: column {column.name!r} is read as text because of {listed} among its numbers. If that means a "
            "missing value, leave the cell empty.",
            err=True,
        )
    if observed.nunique() > MAX_LEVELS:
        raise click.ClickException(
            f"Column {column.name!r} holds {observed.nunique()} different texts, too many for a category: leave it out "
            f"with --drop {column.name!r}, or use it as --group if it identifies groups of rows."
        )


def _formula_of(target: str, terms: list[str], text: list[str], request: Request) -> str:
    """The formula of these terms and the group; a note says which predictors are categories."""
    if text:
        say(f"Note: text columns are used as categories ({tables.join_names(text)}).", err=True)
    of_group = "" if request.group is None else f" + (1 | `{request.group}`)"
    return f"`{target}` ~ {' + '.join(terms)}{of_group}"


def _fit_files(files: "Files", request: Request) -> "Fit | Classifier":
    """Fit what the user asked for to rows in files."""
    if request.drop_missing_outcome:
        raise click.UsageError("--drop-missing-outcome is for tables in memory: leave such rows out of the files.")
    table = files.opened()
    if request.formula is not None:
        return _fit_files_by_formula(files, request.formula, request)
    target = str(request.target)
    columns = [name for name in table.names if name not in (target, request.weights, *request.dropped)]
    for option, names in request.uses.items():
        tables.check_columns(table.names, names, option)
    inputs = _inputs(columns, target, request)
    text = [name for name in inputs if table.types[name] == "text"]
    if not text and request.positive is None:
        return request.classifier().fit_files(files, target, features=columns, weights=request.weights)
    return _fit_files_by_formula(files, _formula_of(target, [f"`{name}`" for name in inputs], text, request), request)


def _fit_files_by_formula(files: "Files", formula: str, request: Request) -> "Fit":
    if request.balanced:
        raise click.UsageError(
            "--balanced is for tables in memory where there is a formula, text columns or --positive: put "
            "weights that balance the classes into a column of the files, and name it with --weights."
        )
    positive = None if request.positive is None else _find_level(files, formula, request.positive)
    return request.fit_formula(formula, files, positive, request.weights)


def _find_level(files: "Files", formula: str, given: str) -> Any:
    """The class that the user wrote."""
    from vbsvm.design.formula import syntax

    table = files.opened()
    outcome = syntax.read(formula, table.names).outcome
    for piece in table.pieces([outcome]):
        for level in piece.frame[outcome].dropna().unique().tolist():
            if _is_label(level, given):
                return level
    raise click.ClickException(f"--positive: {given!r} is not a value of {outcome!r}.")
