"""``vbsvm predict``."""

from typing import Any

import click

from vbsvm.cli import large, tables, texts
from vbsvm.cli.models import columns_of, is_fit, text_of
from vbsvm.cli.texts import Signs


@click.command()
@click.argument("model")
@click.argument("data")
@click.option("--proba", is_flag=True, help="Add the probability of each class.")
@click.option("--scores", is_flag=True, help="Add the score; positive scores mean the second class.")
@click.option("--keep", metavar="COLUMN", multiple=True, help="Copy a column of DATA, such as an identifier.")
@tables.excel_safe_option
@texts.options
@large.options
@click.option("--out", metavar="FILE", help="Write the predictions to FILE instead of stdout.")
@click.option("--force", is_flag=True, help="Replace FILE if it exists.")
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
    **added: bool,
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

    tables.require_writable(out, force=force)
    fitted: Any = load(model)
    change = tables.excel_safe if excel_safe else None
    files = large.files_of(data, memory_limit, Signs(sep, decimal))
    if files is not None:
        classes = fitted.classes if is_fit(fitted) else fitted.classes_
        kept = list(dict.fromkeys(keep))
        large.predict(
            fitted, files, columns_of(fitted), text_of(fitted), classes, out, keep=kept, change=change, **added
        )
        return
    frame = tables.read(data, text_of(fitted), Signs(sep, decimal))
    tables.require_columns(frame, keep, "--keep")
    found = _predicted(fitted, frame, list(dict.fromkeys(keep)), **added)
    tables.write(found if change is None else change(found), out, force=force)


def _predicted(fitted: Any, frame: Any, keep: list[str], *, proba: bool, scores: bool) -> Any:
    from vbsvm.results.predicted_files import predicted

    columns = columns_of(fitted)
    tables.require_columns(frame, columns, "The model needs a column that the table lacks")
    inputs = tables.with_plain_numbers(frame[columns], text_of(fitted))
    classes = fitted.classes if is_fit(fitted) else fitted.classes_
    return predicted(fitted, inputs, frame[keep], classes, proba=proba, scores=scores)
