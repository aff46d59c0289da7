"""What a fit and a model show of themselves: in a line, printed, and as HTML in notebooks."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
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
MISLEADING = "Effects of a support vector machine may mislead with discrete predictors: see docs/when-not.md."


def kind(spec: Spec, plan: Plan) -> str:
    """The model's name: by its likelihood, and whether it has random effects."""
    if spec.likelihood.normalised:
        return "Mixed-effects logistic regression" if plan.factors else "Logistic regression"
    return "Mixed support vector machine" if plan.factors else "Support vector machine"


def of_several_classes(fits: "Sequence[Fit]", classes: str, table: "pd.DataFrame") -> str:
    """A line, and the table of an estimator that knows more than two classes, with its note."""
    ended = "Converged" if all(fit.converged for fit in fits) else "Not converged"
    ended = f"{ended} in up to {printing.counted(max(fit.course.passes for fit in fits), 'iteration')}."
    head = f"{_what(fits[0])}. {_counted(fits[0])} One model for each class of {classes} against the rest. {ended}"
    return "\n\n".join([printing.wrapped(head), *_with_notes([table]), *_caution(fits[0])])


def line(fit: "Fit") -> str:
    """What was fitted, and how it ended."""
    return printing.visible(f"<{_head(fit)}>")


def text(fit: "Fit") -> str:
    """What was fitted, how it ended, fixed effects and variance components, and what their spreads are."""
    head = "\n".join(map(printing.wrapped, [_head(fit), *_remarks(fit)]))
    return "\n\n".join([head, *_with_notes(_tables(fit).values()), *_caution(fit)])


def html(fit: "Fit") -> str:
    """The same as HTML without scripts or colours of its own."""
    facts = [] if fit.facts is None else [f"Observations: {_classes(fit.facts, fit.classes)}"]
    lines = [_counted(fit), *facts, _modelled(fit), fit.course.ended, *_remarks(fit)]
    tables = _tables(fit)
    shown = [printing.html_frame(caption, table, MOST_ROWS) for caption, table in tables.items()]
    notes = [*dict.fromkeys(table.attrs["spreads"] for table in tables.values()), *_caution(fit)]
    return _page(_what(fit), lines, [*shown, *(f"<p><em>{printing.html_text(note)}</em></p>" for note in notes)])


def _head(fit: "Fit") -> str:
    """The line that a fit begins with."""
    return f"{_what(fit)}. {_counted(fit)} {_modelled(fit)} {fit.course.ended}"


def _what(fit: "Fit") -> str:
    """Kind of model, and its formula."""
    of = fit.reader.parts.text if fit.reader is not None else printing.counted(fit.plan.n_shown, "predictor")
    return f"{kind(fit.spec, fit.plan)}: {of}"


def _counted(fit: "Fit") -> str:
    """Observations, levels of grouping factors, and rows that were left out; older files know of levels only."""
    told = [] if fit.facts is None else [printing.counted(fit.facts.n_rows, "observation")]
    told += [f"{printing.counted(len(factor.levels), 'level')} of {factor.name}" for factor in fit.plan.factors]
    told += [fit.facts.left_out] if fit.facts is not None and fit.facts.left_out else []
    return f"{', '.join(told)}." if told else ""


def _modelled(fit: "Fit") -> str:
    return f'Modelled class: "{fit.classes[1]!s}".'


def _remarks(fit: "Fit") -> list[str]:
    """The likelihood power where it is not 1, and whether several starts agree."""
    found = [] if fit.likelihood_power == 1.0 else [f"Likelihood power: {fit.likelihood_power:.3g}."]
    ends = fit.course.starts if fit.selects else []
    if len(ends) < 2:
        return found
    told = "; ".join(f"ELBO {printing.fixed(bound, 3)}, {count} predictors included" for bound, count in ends)
    return [*found, f"{len(ends)} starts {'agree' if starts_agree(ends) else 'disagree'}: {told}."]


def _caution(fit: "Fit") -> list[str]:
    """Where effects of a support vector machine mislead."""
    return [] if fit.spec.likelihood.normalised else [printing.wrapped(MISLEADING)]


def _tables(fit: "Fit") -> "dict[str, pd.DataFrame]":
    found = {"Coefficients": fit.summary(), "Variance components": fit.component_table()}
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
    paragraphs = "<br>".join(printing.html_text(one) for one in lines)
    return f"<div><p><strong>{printing.html_text(title)}</strong><br>{paragraphs}</p>{''.join(tables)}</div>"


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
        table = [printing.visible(row) for row in table]
        head, *others = (printing.wrapped(one) for one in self._lines())
        return "\n".join([printing.wrapped(self._title), head, "", *table, *others])

    def html(self) -> str:
        """The same as HTML without scripts or colours of its own."""
        names = [(name,) for name, *_ in self._blocks()]
        texts = [row for _, *row in self._blocks()]
        table = printing.html_table("Priors", ("block", "coefficients", "prior"), names, texts)
        return _page(self._title, self._lines(), [table])

    @property
    def _title(self) -> str:
        return f"{kind(self.spec, self.plan)}: {self.formula}"

    def _blocks(self) -> list[tuple[str, str, str]]:
        return [(block.name, str(block.size), block.prior.written()) for block in self.spec.blocks]

    def _lines(self) -> list[str]:
        groups = [
            f"{len(factor.levels)} groups in {factor.name}, of {sizes.min()} to {sizes.max()} rows"
            for sizes, factor in zip(self.facts.group_sizes, self.plan.factors, strict=True)
        ]
        rows = f"{self.facts.n_rows} rows: {_classes(self.facts, self.classes)}"
        return [rows, *groups, f"keys of priors: {', '.join(map(repr, self.keys))}"]
