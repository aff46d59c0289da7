"""``vbsvm summary``, ``vbsvm report`` and ``vbsvm demo``."""

from collections.abc import Sequence
from typing import Any

import click

from vbsvm.cli import tables, texts
from vbsvm.cli.texts import Signs
from vbsvm.cli.wording import say


def covariance_option(command: Any) -> Any:
    """Add the option that chooses which spreads are shown."""
    return click.option(
        "--covariance",
        type=click.Choice(["robust", "posterior", "curvature", "mean-field"]),
        help="Type of standard error.  [default: posterior in logistic models, else robust; what is available]",
    )(command)


@click.command()
@click.argument("model")
@covariance_option
def summary(model: str, *, covariance: str | None) -> None:
    """Show the saved MODEL: whether the fit converged, its coefficients, and its variance components.

    \b
    Example:
      vbsvm summary model.vbsvm
      vbsvm summary model.vbsvm --covariance posterior
    """
    from vbsvm import load

    say(described(load(model), covariance))


@click.command()
@click.argument("model")
@click.option("--data", metavar="FILE", help="The table that the model was fitted to, to show its predictions.")
@click.option("--target", metavar="COLUMN", help="With --data, for a model without a formula: the column it predicts.")
@click.option("--drop-missing-outcome", is_flag=True, help="With --data: leave out rows whose outcome is missing.")
@texts.options
@click.option("--title", metavar="TEXT", help="The title of the page.")
@covariance_option
@click.option("--out", metavar="FILE", required=True, help="Write the page to FILE.")
@click.option("--force", is_flag=True, help="Replace FILE if it exists.")
def report(
    model: str,
    *,
    data: str | None,
    target: str | None,
    drop_missing_outcome: bool,
    sep: str | None,
    decimal: str | None,
    title: str | None,
    covariance: str | None,
    out: str,
    force: bool,
) -> None:
    """Write a report of the saved MODEL: one HTML page that needs nothing else.

    \b
    Examples:
      vbsvm report model.vbsvm --data train.csv --out report.html
      vbsvm report model.vbsvm --data train.csv --target disease --out report.html
    """
    from vbsvm import load

    tables.require_free(out, force=force)
    fitted: Any = load(model)
    given, rows = {}, range(0)
    if data is not None:
        text = text_of(fitted, target)
        frame = tables.with_plain_numbers(tables.read(data, text, Signs(sep, decimal)), text)
        given, rows = _rows(fitted, frame, target, drop=drop_missing_outcome)
    with tables.numbered(rows):
        fitted.report(out, title=title, covariance=covariance, **given)
    say(f"Wrote {out}.", err=True)


def _rows(fitted: Any, frame: Any, target: str | None, *, drop: bool) -> tuple[dict[str, Any], Sequence[int]]:
    """What a report asks of the data: rows whose outcome is known; and their numbers in the file."""
    columns = columns_of(fitted)
    outcome = fitted.reader.parts.outcome if is_fit(fitted) else target
    if outcome is None:
        raise click.UsageError("The model has no formula: name the column of --data that it predicts with --target.")
    tables.require_columns(frame, [*columns, outcome], "--data")
    known = tables.with_outcome(frame, outcome, drop=drop)
    rows, known = known.index, known.reset_index(drop=True)
    return ({"data": known} if is_fit(fitted) else {"X": known[columns], "y": known[outcome]}), rows


@click.command()
@click.option("--report", metavar="FILE", default="vbsvm-demo.html", show_default=True, help="Write the page to FILE.")
def demo(report: str) -> None:
    """Fit real data without tuning, compare with a linear SVM tuned by grid search, and write a report.

    \b
    Example:
      vbsvm demo
    """
    from vbsvm.cli import demo

    demo.run(report)


def is_fit(fitted: Any) -> bool:
    """Whether it is the fit of a formula, and not a classifier."""
    from vbsvm.results.fit import Fit

    return isinstance(fitted, Fit)


def columns_of(fitted: Any) -> list[str]:
    """Columns that a model needs to predict."""
    owner, name = (fitted.reader, "columns") if is_fit(fitted) else (fitted, "feature_names_in_")
    names = getattr(owner, name, None)
    if names is None:
        raise click.ClickException("The model was fitted to an array, so its columns have no names: use it in Python.")
    return [str(name) for name in names]


def text_of(fitted: Any, target: str | None = None) -> set[str]:
    """Columns that were text in fit, and are text again where a file holds none but such as "1" and "2"."""
    if is_fit(fitted):
        from vbsvm.results.predicted_files import text_columns

        outcome = fitted.reader.parts.outcome
        is_text = isinstance(fitted.classes[-1], str) and fitted.reader.kinds.get(outcome) == "O"
        return text_columns(fitted.reader) | ({outcome} if is_text else set())  # the first may be called "not 2"
    is_text = target is not None and all(isinstance(label, str) for label in fitted.classes_)
    return fitted._text_columns | ({target} if is_text else set())


def described(fitted: Any, covariance: str | None = None) -> str:
    """What a fit or a classifier says of itself, in a few tables."""
    from vbsvm.results import display

    if is_fit(fitted):
        return str(fitted._showing(covariance))
    if len(fitted.fit_) == 1:
        return str(fitted.fit_[0]._showing(covariance))
    return display.of_several_classes(
        fitted.fit_, tables.listed(fitted.classes_), fitted.summary(covariance=covariance)
    )
