"""``vbsvm predict``."""

from typing import Any

import click
import numpy as np

from vbsvm.cli import tables, texts
from vbsvm.cli.showing import columns_of, is_fit, text_of
from vbsvm.cli.texts import Signs


@click.command()
@click.argument("model")
@click.argument("data")
@click.option("--proba", is_flag=True, help="Add the probability of each class.")
@click.option("--scores", is_flag=True, help="Add the score; positive scores mean the second class.")
@click.option("--keep", metavar="COLUMN", multiple=True, help="Copy a column of DATA, such as an identifier.")
@texts.options
@click.option("--out", metavar="FILE", help="Write the predictions to FILE instead of stdout.")
@click.option("--force", is_flag=True, help="Replace FILE if it exists.")
def predict(
    model: str,
    data: str,
    *,
    keep: tuple[str, ...],
    sep: str | None,
    decimal: str | None,
    out: str | None,
    force: bool,
    **added: bool,
) -> None:
    """Predict the rows of the table DATA with the saved MODEL: one row of CSV for each, in the same order.

    Probabilities are averaged over missing values. A group that is new to the model gets the prediction for the
    population.

    \b
    Examples:
      vbsvm predict model.vbsvm new.csv
      vbsvm predict model.vbsvm new.csv --proba --scores --keep patient --out predictions.csv
    """
    from vbsvm import load

    tables.require_writable(out, force=force)
    fitted = load(model)
    frame = tables.read(data, text_of(fitted), Signs(sep, decimal))
    tables.require_columns(frame, keep, "--keep")
    tables.write(_predicted(fitted, frame, list(dict.fromkeys(keep)), **added), out, force=force)


def _predicted(fitted: Any, frame: Any, keep: list[str], *, proba: bool, scores: bool) -> Any:
    classes = fitted.classes if is_fit(fitted) else fitted.classes_
    scored = _named("score", classes) if len(classes) > 2 else ["score"]
    chances = _named("probability", classes)
    _require_apart(keep, ["prediction", *(scored if scores else []), *(chances if proba else [])])
    columns = columns_of(fitted)
    tables.require_columns(frame, columns, "The model needs a column that the table lacks")
    inputs = tables.with_plain_numbers(frame[columns], text_of(fitted))
    found = frame[keep].copy()
    found["prediction"] = fitted.predict(inputs)
    if scores:
        values = np.asarray(fitted.decision_function(inputs))
        found = found.assign(**dict(zip(scored, np.atleast_2d(values.T), strict=True)))
    if proba:
        found = found.assign(**dict(zip(chances, fitted.predict_proba(inputs).T, strict=True)))
    return found


def _require_apart(keep: list[str], added: list[str]) -> None:
    for name in keep:
        if name in added:
            raise click.ClickException(
                f"--keep: {name!r} is the name of a column that predict writes: rename it in the table."
            )


def _named(what: str, classes: Any) -> list[str]:
    return [f"{what} {label}" for label in classes]
