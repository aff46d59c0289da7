"""What a fit and a model show of themselves: in a line, printed, and as HTML in notebooks."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Any, final

from numpy.typing import NDArray

from vbsvm.base import printing
from vbsvm.design.columns import Plan
from vbsvm.model.spec import Spec
from vbsvm.results.course import starts_agree
from vbsvm.results.data_summary import Facts

if TYPE_CHECKING:
    import pandas as pd

    from vbsvm.results.fit import Fit

MOST_ROWS = 60


def of_several_classes(head: str, table: "pd.DataFrame") -> str:
    """A line, and the table of an estimator that knows more than two classes, with its note."""
    return "\n\n".join([printing.wrapped(head), *_with_notes([table])])


def line(fit: "Fit") -> str:
    """What was fitted, and how it ended."""
    return f"<Fit of {_what(fit)}: {fit.course.ended}>"


def text(fit: "Fit") -> str:
    """Formula, how the fit ended, fixed effects and variance components, and what their spreads are."""
    left_out = "" if fit.facts is None else fit.facts.left_out
    ended = f"{fit.course.ended}; {left_out}" if left_out else fit.course.ended
    head = [f"Fit of {_what(fit)}: {ended}", *_remarks(fit)]
    return "\n\n".join(["\n".join(map(printing.wrapped, head)), *_with_notes(_tables(fit).values())])


def html(fit: "Fit") -> str:
    """The same as HTML without scripts or colours of its own."""
    facts = [] if fit.facts is None else [f"{fit.facts.n_rows} rows: {_classes(fit.facts, fit.classes)}"]
    lines = [fit.course.ended, *facts, *_remarks(fit)]
    tables = _tables(fit)
    shown = [printing.html_frame(caption, table, MOST_ROWS) for caption, table in tables.items()]
    notes = dict.fromkeys(table.attrs["spreads"] for table in tables.values())
    return _page(f"Fit of {_what(fit)}", lines, [*shown, *(f"<p><em>{escape(note)}</em></p>" for note in notes)])


def _what(fit: "Fit") -> str:
    return fit.reader.parts.text if fit.reader is not None else f"{len(fit.plan.names)} columns"


def _remarks(fit: "Fit") -> list[str]:
    """What the sign of a score means, and whether several starts agree."""
    found = [f"Positive scores mean {fit.classes[1]!s}."]
    ends = fit.course.starts if fit.selects else []
    if len(ends) > 1:
        told = "; ".join(f"bound {printing.fixed(bound, 3)}, {count} inputs included" for bound, count in ends)
        found.append(f"{len(ends)} starts {'agree' if starts_agree(ends) else 'disagree'}: {told}.")
    return found


def _tables(fit: "Fit") -> "dict[str, pd.DataFrame]":
    found = {"Coefficients": fit.summary(), "Variance components": fit.variance_components()}
    return {caption: table for caption, table in found.items() if len(table)}


def _with_notes(tables: "Iterable[pd.DataFrame]") -> list[str]:
    """Tables, each with its note below; a note that the next table has too is told once."""
    found, tables = [], list(tables)
    notes = [table.attrs["spreads"] for table in tables]
    for k, table in enumerate(tables):
        found.append(printing.table(table))
        if notes[k] not in notes[k + 1 :]:
            found.append(printing.wrapped(notes[k]))
    return found


def _classes(facts: Facts, classes: NDArray[Any]) -> str:
    negative, positive = ("the rest" if label is None else str(label) for label in classes)
    told = f"{facts.rows[1]} of {positive} (+1), {facts.rows[0]} of {negative} (-1)"
    return f"{told}; {facts.left_out}" if facts.left_out else told


def _page(title: str, lines: Sequence[str], tables: Sequence[str]) -> str:
    paragraphs = "<br>".join(escape(one) for one in lines)
    return f"<div><p><strong>{escape(title)}</strong><br>{paragraphs}</p>{''.join(tables)}</div>"


@final
@dataclass(frozen=True, eq=False)
class Outline:
    """A model before it is fitted: its formula, rows, blocks, and the keys of ``priors``."""

    formula: str
    facts: Facts
    classes: NDArray[Any]
    spec: Spec
    plan: Plan
    keys: Sequence[str]

    def text(self) -> str:
        """Formula, rows and classes, blocks with their sizes and priors, groups, and the keys of ``priors``."""
        rows = [("block", "coefficients", "prior"), *self._blocks()]
        widths = [max(len(row[i]) for row in rows) for i in range(2)]
        table = [f"  {name:<{widths[0]}}  {size:>{widths[1]}}  {prior}" for name, size, prior in rows]
        head, *others = (printing.wrapped(one) for one in self._lines())
        return "\n".join([printing.wrapped(self.formula), head, "", *table, *others])

    def html(self) -> str:
        """The same as HTML without scripts or colours of its own."""
        names = [(name,) for name, *_ in self._blocks()]
        texts = [row for _, *row in self._blocks()]
        table = printing.html_table("Priors", ("block", "coefficients", "prior"), names, texts)
        return _page(f"Model {self.formula}", self._lines(), [table])

    def _blocks(self) -> list[tuple[str, str, str]]:
        return [(block.name, str(block.size), block.prior.written()) for block in self.spec.blocks]

    def _lines(self) -> list[str]:
        groups = [
            f"{len(factor.levels)} groups in {factor.name}, of {sizes.min()} to {sizes.max()} rows"
            for sizes, factor in zip(self.facts.group_sizes, self.plan.factors, strict=True)
        ]
        rows = f"{self.facts.n_rows} rows: {_classes(self.facts, self.classes)}"
        return [rows, *groups, f"keys of priors: {', '.join(map(repr, self.keys))}"]
