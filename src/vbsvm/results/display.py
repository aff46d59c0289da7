"""What a fit and a model show of themselves: in a line, printed, and as HTML in notebooks; and how a fit ended."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, final

import numpy as np
from numpy.typing import NDArray

from vbsvm.base import diagnostics, printing
from vbsvm.design.columns import Plan
from vbsvm.inference.loop import Status
from vbsvm.model.spec import Spec
from vbsvm.results import tables
from vbsvm.results.history import ChainHistory, Facts, History, OptimizationHistory, starts_agree

if TYPE_CHECKING:
    import pandas as pd

    from vbsvm.results.fit import Fit

# What is said of an optimisation that has no bound; and of one whose bound is not that of its state.
DRAWN, INTEGRATED = "the covariance by draws", "random effects integrated out"
# How an optimisation of so many iterations ended; and a verdict on it, good or not.
ENDINGS = {
    Status.CONVERGED: "Converged in {}",
    Status.OUT_OF_PASSES: "Not converged: reached the limit of {}",
    Status.INPUTS_OUT_OF_PASSES: "Not converged: reached the limit of iterations for the predictors, {}",
    Status.ROUNDING: "Not converged: rounding errors outweighed every further step after {}",
    Status.INTERRUPTED: "Interrupted after {}",
}
VERDICTS = {
    Status.CONVERGED: "The fit converged after {} passes over the data.",
    Status.OUT_OF_PASSES: (
        "The fit reached the limit of passes ({}) before it converged: the coefficients may still change. Allow "
        "more with Variational(max_iter=…)."
    ),
    Status.INPUTS_OUT_OF_PASSES: (
        "The distribution of the predictors did not converge: the coefficients may still change. Use a stronger "
        "prior of these, as with GaussianImputation(psi=10), or allow more with Variational(max_iter=…)."
    ),
    Status.ROUNDING: (
        "Stopped because of rounding errors: the coefficients are not at the optimum. Predictors have a large mean "
        "relative to their standard deviation, or are collinear."
    ),
    Status.INTERRUPTED: "The fit was interrupted after {} passes: the coefficients may still change.",
}
MISLEADING = "Effects of a support vector machine may mislead with discrete predictors: see docs/when-not.md."


def kind(spec: Spec, plan: Plan) -> str:
    """Name of the model type, by its likelihood and whether it has random effects."""
    if spec.likelihood.normalised:
        return "Mixed-effects logistic regression" if plan.factors else "Logistic regression"
    return "Mixed support vector machine" if plan.factors else "Support vector machine"


def multiclass_text(fits: "Sequence[Fit]", classes: str, table: "pd.DataFrame") -> str:
    """Summary text of a multiclass estimator: a headline and its table with a note."""
    ended = "Converged" if all(fit.converged for fit in fits) else "Not converged"
    ended = f"{ended} in up to {printing.count_noun(max(fit.history.passes for fit in fits), 'iteration')}."
    head = f"{_model(fits[0])}. {_counts(fits[0])} One model for each class of {classes} against the rest. {ended}"
    return "\n\n".join([printing.wrap_text(head), *_with_notes([table]), *_caution(fits[0])])


def line(fit: "Fit") -> str:
    """One-line summary: model, data, and convergence."""
    return printing.visible(f"<{_headline(fit)}>")


def text(fit: "Fit", coefficients: "pd.DataFrame | None" = None) -> str:
    """Summary text: headline, fixed effects (or a part of them), variance components, and notes."""
    head = "\n".join(map(printing.wrap_text, [_headline(fit), *_remarks(fit)]))
    return "\n\n".join([head, *_with_notes(_tables(fit, coefficients).values()), *_caution(fit)])


def html(fit: "Fit") -> str:
    """The same as HTML without scripts or colours of its own."""
    facts = [] if fit.facts is None else [f"Observations: {_class_counts(fit.facts, fit.classes)}"]
    lines = [_counts(fit), *facts, tables.modelled_class(fit), ended(fit.history), *_remarks(fit)]
    by_caption, frames = _tables(fit), []
    notes = [*dict.fromkeys(table.attrs["note"] for table in by_caption.values()), *_caution(fit)]
    for caption, table in by_caption.items():
        rows, which = tables.most_notable(table)
        frames.append(printing.html_frame(f"{caption}: {which}" if which else caption, rows, len(rows)))
    return _page(_model(fit), lines, [*frames, *(f"<p><em>{printing.html_text(note)}</em></p>" for note in notes)])


def _headline(fit: "Fit") -> str:
    """First line of the summary: model, data, modelled class, and convergence."""
    return f"{_model(fit)}. {_counts(fit)} {tables.modelled_class(fit)} {ended(fit.history)}"


def _model(fit: "Fit") -> str:
    """Kind of model, and its formula."""
    of = fit.reader.parts.text if fit.reader is not None else printing.count_noun(fit.plan.n_shown, "predictor")
    return f"{kind(fit.spec, fit.plan)}: {of}"


def _counts(fit: "Fit") -> str:
    """Numbers of observations, levels of factors, and dropped rows; for older files levels only."""
    parts = [] if fit.facts is None else [printing.count_noun(fit.facts.n_rows, "observation")]
    parts += [f"{printing.count_noun(len(factor.levels), 'level')} of {factor.name}" for factor in fit.plan.factors]
    parts += [fit.facts.left_out] if fit.facts is not None and fit.facts.left_out else []
    return f"{', '.join(parts)}." if parts else ""


def _remarks(fit: "Fit") -> list[str]:
    """The likelihood power where it is not 1, and whether several starts agree."""
    remarks = [] if fit.likelihood_power == 1.0 else [f"Likelihood power: {fit.likelihood_power:.3g}."]
    ends = fit.history.starts if fit.selects else []
    if len(ends) < 2:
        return remarks
    starts = "; ".join(f"ELBO {printing.fixed_decimals(bound, 3)}, {n} predictors included" for bound, n in ends)
    return [*remarks, f"{len(ends)} starts {'agree' if starts_agree(ends) else 'disagree'}: {starts}."]


def _caution(fit: "Fit") -> list[str]:
    """Caution on the effects of a support vector machine; empty for other models."""
    return [] if fit.spec.likelihood.normalised else [printing.wrap_text(MISLEADING)]


def _tables(fit: "Fit", coefficients: "pd.DataFrame | None" = None) -> "dict[str, pd.DataFrame]":
    coefficients, in_head = fit.summary() if coefficients is None else coefficients.copy(), tables.modelled_class(fit)
    coefficients.attrs["note"] = coefficients.attrs["note"].removeprefix(f"{in_head} ")
    by_caption = {"Coefficients": coefficients, "Variance components": tables.printed_components(fit)}
    return {caption: table for caption, table in by_caption.items() if len(table)}


def _with_notes(shown: "Iterable[pd.DataFrame]") -> list[str]:
    """Tables as texts, each with its note below; a note shared with a later table is printed once."""
    texts, shown = [], list(shown)
    notes = [table.attrs["note"] for table in shown]
    for k, table in enumerate(shown):
        rows, which = tables.most_notable(table)
        texts += [printing.table(rows), *filter(None, [printing.wrap_text(which)])]
        if notes[k] not in notes[k + 1 :]:
            texts.append(printing.wrap_text(notes[k]))
    return texts


def _class_counts(facts: Facts, classes: NDArray[Any]) -> str:
    negative, positive = ("the rest" if label is None else str(label) for label in classes)
    counts = f"{facts.rows[1]} of {positive} (+1), {facts.rows[0]} of {negative} (-1)"
    return f"{counts}; {facts.left_out}" if facts.left_out else counts


def ended(history: History) -> str:
    """Sentence on the end of a fit: iterations and the evidence lower bound, or chains and draws."""
    if isinstance(history, ChainHistory):
        chains, draws = history.size
        return f"{chains} chains of {draws} draws in {history.passes} sweeps, tuning included."
    text = ENDINGS[history.ending].format(printing.count_noun(history.passes, "iteration"))
    if history.outcome.integrated:
        return f"{text}, {INTEGRATED}."
    if not len(history.bounds):
        return f"{text}, {DRAWN}."
    bound = "exact ELBO" if history.outcome.exact else "ELBO"
    return f"{text}, {bound} {printing.fixed_decimals(float(history.bounds[-1]), 3)}."


def inference_in_short(history: History) -> str:
    """Kind of inference and its length."""
    if isinstance(history, ChainHistory):
        return f"Gibbs sampling, {_chains(history)} of {history.size[1]} draws"
    which = " with the exact bound" if history.outcome.exact else "" if len(history.bounds) else f", {DRAWN}"
    which = f", {INTEGRATED}" if history.outcome.integrated else which
    return f"variational Bayes{which}, {history.passes} passes over the data"


def inference_description(history: History) -> str:
    """Kind of inference and its length, in a sentence."""
    if isinstance(history, ChainHistory):
        chains = f"{_chains(history)} of {history.passes} Gibbs sweeps"
        return f"The posterior was sampled: {chains}, of which {history.size[1]} draws were kept from each."
    which = "variational Bayes with the exact bound" if history.outcome.exact else "mean-field variational Bayes"
    if history.outcome.integrated:
        which = f"variational Bayes, {INTEGRATED}"
    elif not len(history.bounds):
        which += f", {DRAWN}"
    return f"The fit is by {which}; penalties and variances were inferred with the coefficients."


def _chains(history: ChainHistory) -> str:
    return printing.count_noun(history.size[0], "chain")


def convergence(history: History) -> Iterator[tuple[bool, str]]:
    """Convergence checks: for each whether it passed, and a sentence."""
    return _of_chains(history) if isinstance(history, ChainHistory) else _of_optimization(history)


def _of_optimization(history: OptimizationHistory) -> Iterator[tuple[bool, str]]:
    yield history.ending is Status.CONVERGED, VERDICTS[history.ending].format(history.passes)
    if history.outcome.others:
        starts = history.starts
        agree = starts_agree(starts)
        verdict = "agree" if agree else "disagree, and the highest bound was kept"
        ends = "; ".join(f"bound {printing.format_inline(bound, 7)}, {n} inputs included" for bound, n in starts)
        yield agree, f"{len(starts)} starts {verdict}: {ends}."


def _of_chains(history: ChainHistory) -> Iterator[tuple[bool, str]]:
    """Checks that chains were not interrupted, do not separate the classes, and have mixed."""
    if history.sample.interrupted:
        yield False, f"The sampler was interrupted after {history.passes} sweeps."
    if history.separable:
        yield (
            False,
            "Complete separation: most draws separate the classes. Under this prior the posterior has heavy tails, and "
            "its means depend on the length of the chains. Use a tighter prior, such as Ridge(3, 3).",
        )
    worst = history.traces.worst()
    good, needed = f"(up to {diagnostics.MAX_RHAT} is good)", f"effective draws ({diagnostics.MIN_ESS} are needed)."
    if worst is None:
        mixing = diagnostics.columns(history.traces.coefficient_mixing)
        rhat, ess = f"{np.nanmax(mixing['rhat']):.3f}", f"{np.nanmin(mixing['ess_bulk']):.0f}"
        yield (
            True,
            f"The chains agree: the largest R̂ is {rhat} {good}, and every coefficient has at least {ess} {needed}",
        )
    else:
        rhat, ess = printing.format_inline(worst.rhat, 4), printing.format_inline(round(worst.ess))
        mixed = f"{worst.rhat_of} has R̂ {rhat} {good}, and {worst.ess_of} has {ess} {needed}"
        yield False, f"The chains have not mixed well enough: {mixed} Draw more."


def _page(title: str, lines: Sequence[str], tables: Sequence[str]) -> str:
    paragraphs = "<br>".join(printing.html_text(line) for line in lines)
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
        head, *others = (printing.wrap_text(line) for line in self._lines())
        return "\n".join([printing.wrap_text(self._title), head, "", *table, *others])

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
        rows = f"{self.facts.n_rows} rows: {_class_counts(self.facts, self.classes)}"
        return [rows, *groups, f"keys of priors: {', '.join(map(repr, self.keys))}"]
