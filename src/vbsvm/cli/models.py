"""Commands that use a saved model, ``vbsvm predict``, ``summary``, ``effects`` and ``report``; and ``demo``."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from vbsvm.cli import tables
from vbsvm.cli.__init__ import say, stdout, with_cli_notes, with_cli_options

if TYPE_CHECKING:
    from vbsvm.results.fit import Fit

AVERAGES, SLOPE = "probability", "slope"
# Number of coefficients that are shown unless --top says otherwise.
MAX_SHOWN = 60
# Effects need this multiple of a file's size in memory.
EFFECTS_FACTOR = 16
LACKING = "The model needs a column that the table lacks"

covariance_option = click.option(
    "--covariance",
    type=click.Choice(["robust", "posterior", "curvature", "mean-field"]),
    help="Type of standard error.  [default: posterior in logistic models without missing values, else robust]",
)


@click.command()
@click.argument("model")
@click.argument("data")
@click.option("--proba", is_flag=True, help="Add the probability of each class.")
@click.option("--scores", is_flag=True, help="Add the decision value: positive for the second class.")
@click.option("--keep", metavar="COLUMN", multiple=True, help="Copy a column of DATA, such as an identifier.")
@tables.excel_safe_option
@tables.options
@tables.memory_option
@tables.output_option("Write the predictions to FILE instead of stdout.")
def predict(
    model: str,
    data: str,
    *,
    keep: tuple[str, ...],
    excel_safe: bool,
    sep: str | None,
    decimal: str | None,
    memory_limit: str,
    out: str | None,
    force: bool,
    **added: Any,
) -> None:
    """Predict the rows of the table DATA with the saved MODEL: one row of CSV for each, in the same order.

    Probabilities are averaged over missing values. A group that is new to the model gets the prediction for the
    population. DATA may also be a folder of .parquet or .csv files, or a pattern such as "new/*.parquet".

    \b
    Examples:
      vbsvm predict model.vbsvm new.csv
      vbsvm predict model.vbsvm new.csv --proba --scores --keep patient --out predictions.csv
    """
    from vbsvm import load
    from vbsvm.results import fit_predictions

    tables.check_table_path(out, force=force)
    fitted: Any = load(model)
    copied, change = list(dict.fromkeys(keep)), tables.excel_safe if excel_safe else None
    columns, text = model_columns(fitted), text_inputs(fitted)
    classes = fitted.classes if is_fit(fitted) else fitted.classes_
    files = tables.piecewise_files(data, memory_limit, sep, decimal)
    if files is not None:
        to: Any = stdout() if out is None else out
        needed: dict[str, Any] = {"columns": columns, "text": text, "classes": classes}
        fit_predictions.write_predictions(fitted, files, to, keep=copied, change=change, **needed, **added)
        if out is not None:
            say(f"Wrote {out}.", err=True)
        return
    frame = tables.read(data, text, sep, decimal)
    tables.check_columns(frame.columns, keep, "--keep")
    tables.check_columns(frame.columns, columns, LACKING)
    inputs = tables.with_plain_numbers(frame[columns], text)
    table = fit_predictions.predict_frame(fitted, inputs, frame[copied], classes, **added)
    tables.write(table if change is None else change(table), out, force=force)


@click.command()
@click.argument("model")
@covariance_option
@click.option("--top", type=click.IntRange(1), help="Show the N most important coefficients.", metavar="N")
@click.option("--csv", metavar="FILE", help="Write the coefficients as CSV to FILE; - is stdout.")
@click.option("--json", metavar="FILE", help="Write coefficients, variance components and notes as JSON to FILE, or -.")
@click.option("--force", is_flag=True, help="Replace FILE if it exists.")
def summary(
    model: str, *, covariance: str | None, top: int | None, csv: str | None, json: str | None, force: bool
) -> None:
    """Show the saved MODEL: whether the fit converged, its coefficients, and its variance components.

    Of more than 60 coefficients the most important are shown; of a selection, those that are included.

    \b
    Examples:
      vbsvm summary model.vbsvm
      vbsvm summary model.vbsvm --covariance posterior --top 10
      vbsvm summary model.vbsvm --csv coefficients.csv
    """
    from vbsvm import load

    if csv is not None and json is not None:
        raise click.UsageError("Give either --csv or --json.")
    to = csv or json
    path = None if to == tables.STDIN else to
    check = tables.check_output_path if csv is None else tables.check_table_path
    check(path, force=force)
    fitted: Any = load(model)
    if to is None:
        say(description(fitted, covariance, top))
        return
    table = fitted.summary(covariance=covariance)
    note, table = table.attrs["note"], table if top is None else _most_important(fits_of(fitted), table, top)
    table = table.rename_axis(["class", "term"] if table.index.nlevels > 1 else "term").reset_index()
    if json is None:
        tables.write(table, path, force=force)
    else:
        fits = fits_of(fitted)
        components = {"variance_components": fits[0].variance_components().reset_index()} if len(fits) == 1 else {}
        tables.write_json({"coefficients": table, **components}, note, path)


@click.command()
@click.argument("model")
@click.option("--data", metavar="FILE", help="The table that the model was fitted to, to show its predictions.")
@click.option("--target", metavar="COLUMN", help="With --data, for a model without a formula: the column it predicts.")
@click.option("--drop-missing-outcome", is_flag=True, help="With --data: leave out rows whose outcome is missing.")
@tables.options
@click.option("--title", metavar="TEXT", help="The title of the page.")
@covariance_option
@tables.output_option("Write the page to FILE.", required=True)
def report(
    model: str,
    *,
    data: str | None,
    target: str | None,
    drop_missing_outcome: bool,
    sep: str | None,
    decimal: str | None,
    out: str,
    force: bool,
    **shown: Any,
) -> None:
    """Write a report of the saved MODEL: one HTML page that needs nothing else.

    \b
    Examples:
      vbsvm report model.vbsvm --data train.csv --out report.html
      vbsvm report model.vbsvm --data train.csv --target disease --out report.html
    """
    from vbsvm import load

    tables.check_output_path(out, force=force)
    fitted: Any = load(model)
    arguments, rows = {}, range(0)
    if data is not None:
        text = text_inputs(fitted, target)
        frame = tables.with_plain_numbers(tables.read(data, text, sep, decimal), text)
        arguments, rows = _rows(fitted, frame, target, drop=drop_missing_outcome)
    with tables.file_row_numbers(rows):
        fitted.report(out, **shown, **arguments)
    say(f"Wrote {out}.", err=True)


def _rows(fitted: Any, frame: Any, target: str | None, *, drop: bool) -> tuple[dict[str, Any], Sequence[int]]:
    """Data arguments of ``report``, rows with a known outcome; and their numbers in the file."""
    columns = model_columns(fitted)
    outcome = fitted.reader.parts.outcome if is_fit(fitted) else target
    if outcome is None:
        raise click.UsageError("The model has no formula: name the column of --data that it predicts with --target.")
    tables.check_columns(frame.columns, [*columns, outcome], "--data")
    complete = tables.with_outcome(frame, outcome, drop=drop)
    rows, complete = complete.index, complete.reset_index(drop=True)
    return ({"data": complete} if is_fit(fitted) else {"X": complete[columns], "y": complete[outcome]}), rows


@click.command()
@click.argument("model")
@click.argument("data")
@click.argument("variable")
@click.option("--by", metavar="COLUMN", multiple=True, help="Stratify by a column of DATA.")
@click.option("--at", metavar="VALUE", multiple=True, help="A value of VARIABLE; by default all levels, or quantiles.")
@click.option(
    "--kind",
    type=click.Choice([AVERAGES, "difference", "ratio", "odds ratio", SLOPE]),
    default=AVERAGES,
    show_default=True,
    help="Average probabilities, contrasts of them, or the average slope.",
)
@click.option(
    "--groups",
    type=click.Choice(["known", "new", "error", "observed"]),
    default="known",
    show_default=True,
    help="Whether observations keep their random effects.",
)
@click.option("--weights", metavar="COLUMN", help="The column of DATA that holds weights.")
@click.option("--level", type=float, default=0.95, show_default=True, help="Level of the intervals.")
@covariance_option
@tables.options
@tables.excel_safe_option
@tables.memory_option
@tables.output_option("Write the table to FILE instead of stdout.")
def effects(
    model: str,
    data: str,
    variable: str,
    *,
    by: tuple[str, ...],
    at: tuple[str, ...],
    kind: str,
    weights: str | None,
    sep: str | None,
    decimal: str | None,
    excel_safe: bool,
    memory_limit: str,
    out: str | None,
    force: bool,
    **options: Any,
) -> None:
    """Average predicted probabilities over the observations of DATA, with VARIABLE set to each of its values.

    Of a large DATA (a sixteenth of the memory limit, or more) the averages are over a random sample of the observations
    that needs no more memory.

    \b
    Examples:
      vbsvm effects model.vbsvm visits.csv visit --by treatment
      vbsvm effects model.vbsvm visits.csv treatment --kind difference
    """
    from vbsvm import load
    from vbsvm.base import printing

    tables.check_table_path(out, force=force)
    fitted: Any = load(model)
    text = text_inputs(fitted)
    columns = model_columns(fitted)
    files = tables.piecewise_files(data, memory_limit, sep, decimal, factor=EFFECTS_FACTOR)
    if files is None:
        frame = tables.read(data, text, sep, decimal)
    else:
        outcome = [fitted.reader.parts.outcome] if is_fit(fitted) else []
        frame = tables.sample(files, {*columns, *by, weights, *outcome}, text)
    frame = tables.with_plain_numbers(frame, text)
    tables.check_columns(frame.columns, columns, LACKING)
    tables.check_columns(frame.columns, [*by, weights], "The options name a column that the table lacks")
    counts = None if weights is None else frame[weights].to_numpy()
    frame = frame if is_fit(fitted) else frame[model_columns(fitted)]
    rest = options | {"by": list(by) or None, "data": frame, "weights": counts}
    if kind == SLOPE:
        table = fitted.slopes(variable, **rest)
    else:
        rest["at"] = _values(fitted, frame, variable, at) or None
        table = fitted.effects(variable, **rest) if kind == AVERAGES else fitted.contrasts(variable, kind=kind, **rest)
    if out is not None:
        written = table.reset_index()
        tables.write(tables.excel_safe(written) if excel_safe else written, out, force=force)
        return
    say(f"{printing.table(table)}\n\n{printing.wrap_text(with_cli_options(table.attrs['note']))}")


def _values(fitted: Any, frame: Any, variable: str, at: tuple[str, ...]) -> list[Any]:
    """Values as the model knows them: numbers, or levels."""
    rows = fitted._effects_subject(frame, None, None).rows
    levels = rows.levels(variable) if variable in rows.names else []
    if levels is not None:
        by_name = {str(level): level for level in levels}
        return [by_name.get(value, value) for value in at]
    try:
        return [float(value) for value in at]
    except ValueError:
        raise click.UsageError(f"--at: {variable} is a number; got {', '.join(at)}.") from None


def is_fit(fitted: Any) -> bool:
    """Whether it is the fit of a formula, and not a classifier."""
    from vbsvm.results.fit import Fit

    return isinstance(fitted, Fit)


def model_columns(fitted: Any) -> list[str]:
    """Columns that a model needs to predict."""
    owner, name = (fitted.reader, "columns") if is_fit(fitted) else (fitted, "feature_names_in_")
    names = getattr(owner, name, None)
    if names is None:
        raise click.ClickException("The model was fitted to an array, so its columns have no names: use it in Python.")
    return [str(name) for name in names]


def text_inputs(fitted: Any, target: str | None = None) -> set[str]:
    """Columns that were text in fit, and are text again where a file holds none but such as "1" and "2"."""
    if is_fit(fitted):
        from vbsvm.results.fit_predictions import text_columns

        outcome = fitted.reader.parts.outcome
        is_text = isinstance(fitted.classes[-1], str) and fitted.reader.kinds.get(outcome) == "O"
        return text_columns(fitted.reader) | ({outcome} if is_text else set())  # the first may be called "not 2"
    is_text = target is not None and all(isinstance(label, str) for label in fitted.classes_)
    return fitted._text_columns | ({target} if is_text else set())


def fits_of(fitted: Any) -> "Sequence[Fit]":
    """The fits of a classifier, one for each class against the rest, or the fit itself."""
    return (fitted,) if is_fit(fitted) else fitted.fit_


def description(fitted: Any, covariance: str | None = None, top: int | None = None) -> str:
    """Printed summary of a fit or a classifier, with the ``top`` or up to 60 most important coefficients."""
    from vbsvm.results import display

    fits, table = fits_of(fitted), fitted.summary(covariance=covariance)
    if top is not None or len(fits[0].coef) > MAX_SHOWN or fits[0].selects:
        table = _most_important(fits, table, top)
    if len(fits) == 1:
        return with_cli_notes(display.text(fits[0]._showing(covariance), table))
    return with_cli_notes(display.multiclass_text(fits, tables.join_names(fitted.classes_), table))


def _most_important(fits: "Sequence[Fit]", table: Any, top: int | None) -> Any:
    """Intercept and ``top`` coefficients of each model by inclusion probability and size; else those included."""
    from vbsvm.plots.resolve_fit import by_inclusion

    chosen, first = [], 0
    for fit in fits:
        n_terms, n_before = len(fit.coef), int(fit.plan.recipe.intercept)
        default = int((fit.inclusion_probability > 0.5).sum()) if fit.selects and n_terms > MAX_SHOWN else MAX_SHOWN
        order = by_inclusion(fit)[: default if top is None else top]
        chosen += [*range(first, first + n_before), *(first + n_before + order).tolist()]
        first += n_before + n_terms
    shown = table.iloc[chosen]
    if top is None and len(shown) == len(table):
        shown.attrs = table.attrs
        return shown
    note = f"{len(chosen)} of {len(table)} coefficients are shown, the most important first; --top N chooses how many."
    if fits[0].selects:
        counts = [f"{int((fit.inclusion_probability > 0.5).sum())} of {len(fit.coef)}" for fit in fits]
        note = f"Predictors included (probability above ½): {', '.join(counts)}. {note}"
    shown.attrs = table.attrs | {"note": f"{note} {table.attrs['note']}"}
    return shown


@click.command()
@click.option("--report", metavar="FILE", default="vbsvm-demo.html", show_default=True, help="Write the page to FILE.")
@click.option("--force", is_flag=True, help="Replace FILE if it exists.")
def demo(report: str, *, force: bool) -> None:
    """Fit real data without tuning, compare with a linear SVM tuned by grid search, and write a report.

    \b
    Example:
      vbsvm demo
    """
    tables.check_output_path(report, force=force)
    import numpy as np
    from sklearn.datasets import load_breast_cancer
    from sklearn.model_selection import GridSearchCV, StratifiedKFold, cross_validate
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler
    from sklearn.svm import SVC

    from vbsvm import VBSVC

    X, benign = load_breast_cancer(return_X_y=True, as_frame=True)
    y = np.where(benign, "benign", "malignant")
    say("Breast cancer Wisconsin (diagnostic), as shipped with scikit-learn:")
    say(f"{len(X)} tumours, {X.shape[1]} measurements.\n")
    say(f"{'Five-fold cross-validation':44}accuracy     a fit takes")
    grid = GridSearchCV(make_pipeline(StandardScaler(), SVC(kernel="linear")), {"svc__C": np.logspace(-4, 2, 13)}, cv=5)
    folds = StratifiedKFold(5, shuffle=True, random_state=0)
    for name, model in {"VBSVC()": VBSVC(), "GridSearchCV of SVC(kernel='linear'), 13 x 5": grid}.items():
        scores = cross_validate(model, X, y, cv=folds)
        accuracy, seconds = scores["test_score"].mean(), np.median(scores["fit_time"])
        say(f"{name:44}{accuracy:8.3f}     {1e3 * seconds:8.0f} ms")

    clf = VBSVC().fit(X, y)
    say(f"\nThe penalty was inferred, {clf.penalty_[0]:.2f}, and nothing was tuned.\n")
    say(description(clf, top=6))
    try:
        written = clf.report(report, X, y, title="Breast cancer: malignant or benign")
    except ImportError as error:
        say(f"\nNo report was written. {error}")
    else:
        say(f"\nA report with figures, checks and limitations: {written.resolve()}")


@click.command(context_settings={"ignore_unknown_options": True})
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def reproduce(arguments: tuple[str, ...]) -> None:
    """Run the numerical experiments of the paper again; they are in vbsvm's repository and source distribution."""
    raise click.ClickException(
        "The paper's experiments are not a part of the installed package. Clone the repository of vbsvm, or "
        "unpack its source distribution (pip download --no-deps --no-binary vbsvm vbsvm), and run there: python "
        "-m reproduction " + (" ".join(arguments) or "all")
    )
