"""``vbsvm effects``."""

from typing import Any

import click

from vbsvm.cli import tables, texts
from vbsvm.cli.models import columns_of, covariance_option, is_fit, text_of
from vbsvm.cli.texts import Signs
from vbsvm.cli.messages import say

EFFECTS, SLOPE = "probability", "slope"


@click.command()
@click.argument("model")
@click.argument("data")
@click.argument("variable")
@click.option("--by", metavar="COLUMN", multiple=True, help="Part the rows by a column of DATA.")
@click.option("--at", metavar="VALUE", multiple=True, help="A value of VARIABLE; by default all levels, or quantiles.")
@click.option(
    "--kind",
    type=click.Choice([EFFECTS, "difference", "ratio", "odds ratio", SLOPE]),
    default=EFFECTS,
    show_default=True,
    help="Average probabilities, contrasts of them, or the average slope.",
)
@click.option(
    "--groups",
    type=click.Choice(["observed", "new"]),
    default="observed",
    show_default=True,
    help="Whether rows keep the effects of their groups.",
)
@click.option("--weights", metavar="COLUMN", help="The column of DATA that holds weights.")
@click.option("--level", type=float, default=0.95, show_default=True, help="Level of the intervals.")
@covariance_option
@texts.options
@tables.excel_safe_option
@click.option("--out", metavar="FILE", help="Write the table as CSV to FILE.")
@click.option("--force", is_flag=True, help="Replace FILE if it exists.")
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
    out: str | None,
    force: bool,
    **chosen: Any,
) -> None:
    """Average what the saved MODEL predicts of the rows of DATA where VARIABLE is set to each of its values.

    \b
    Examples:
      vbsvm effects model.vbsvm visits.csv visit --by treatment
      vbsvm effects model.vbsvm visits.csv treatment --kind difference
    """
    from vbsvm import load
    from vbsvm.base import printing

    tables.require_writable(out, force=force)
    fitted: Any = load(model)
    text = text_of(fitted)
    frame = tables.with_plain_numbers(tables.read(data, text, Signs(sep, decimal)), text)
    tables.require_columns(frame, columns_of(fitted), "The model needs a column that the table lacks")
    tables.require_columns(frame, [*by, weights], "The options name a column that the table lacks")
    counts = None if weights is None else frame[weights].to_numpy()
    frame = frame if is_fit(fitted) else frame[columns_of(fitted)]
    rest = chosen | {"by": list(by) or None, "data": frame, "weights": counts}
    if kind == SLOPE:
        found = fitted.slopes(variable, **rest)
    else:
        rest["at"] = _values(fitted, frame, variable, at) or None
        found = fitted.effects(variable, **rest) if kind == EFFECTS else fitted.contrasts(variable, kind=kind, **rest)
    if out is not None:
        table = found.reset_index()
        tables.write(tables.excel_safe(table) if excel_safe else table, out, force=force)
        return
    say(f"{found.columns.name}\n\n{printing.table(found)}\n\n{printing.wrapped(found.attrs['spreads'])}")


def _values(fitted: Any, frame: Any, variable: str, at: tuple[str, ...]) -> list[Any]:
    """Values as the model knows them: numbers, or levels."""
    rows = fitted._effects_subject(frame, None, None).rows
    levels = rows.levels(variable) if variable in rows.names else []
    if levels is not None:
        known = {str(level): level for level in levels}
        return [known.get(one, one) for one in at]
    try:
        return [float(one) for one in at]
    except ValueError:
        raise click.UsageError(f"--at: {variable} is a number; got {', '.join(at)}.") from None
