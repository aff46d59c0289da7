"""One page of HTML that says what was fitted, to what, what came out, and how far to trust it. It may import plots,
results and everything below; ``document`` alone knows the template engine.
"""

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from vbsvm.plots.resolve_fit import Predicted
from vbsvm.report import checks, data, document, evaluation, predictions, sections
from vbsvm.report.document import Check, Section
from vbsvm.report.evaluation import Evaluation, Owner
from vbsvm.results.fit import Fit

__all__ = ["Owner", "write"]


def write(
    path: str | os.PathLike[str],
    fits: Sequence[Fit],
    predicted: Sequence[Predicted] = (),
    title: str | None = None,
    owner: Owner | None = None,
) -> Path:
    """Write the report of a fit, or of an estimator's fits with their predicted rows, and return its path.

    ``owner`` is asked for effects.

    The same fit and rows give the same bytes. A file that is there already is replaced at once, or not at all.
    """
    if not isinstance(path, str | os.PathLike):
        raise TypeError(f"report: path must be the name of a file, such as 'report.html'; got {path!r}.")
    target = Path(path)
    if target.is_dir():
        raise ValueError(f"report: {target} is a directory; name a file in it, such as {target / 'report.html'}.")
    if not target.parent.is_dir():
        raise ValueError(f"report: there is no directory {target.parent}; create it first.")
    document.check_dependencies()
    title = sections.title_of(fits) if title is None else str(title)
    return document.write_page(target, document.document(title, _sections(fits, predicted, owner), data.foot(fits)))


def _sections(fits: Sequence[Fit], predicted: Sequence[Predicted], owner: Owner | None) -> list[Section]:
    external = evaluation.evaluate_given(fits, predicted, owner)
    evaluated = evaluation.evaluate_left_out(fits, owner)
    if evaluated is not None:
        predicted = [Predicted.from_left_out(evaluated.rows, fits, k) for k in range(len(fits))]
    evaluated = external if evaluated is None else evaluated
    of_each = [tuple(sections.fit_sections(fit, f"f{k}")) for k, fit in enumerate(fits)]
    endings = [sections.convergence_section(fit, f"f{k}") for k, fit in enumerate(fits)]
    found_of, ending = list(of_each[0]), endings[0]
    if len(fits) > 1:
        labels = [f"{fit.classes[1]!s} versus the rest" for fit in fits]
        found_of = [Section(label, (), parts) for label, parts in zip(labels, of_each, strict=True)]
        parts = [replace(part, title=str(fit.classes[1])) for fit, part in zip(fits, endings, strict=True)]
        ending = Section("Convergence", (), tuple(parts))
    averages = None if owner is None else predictions.effects(owner, "f")
    patterns = fits[0].missing_patterns
    missing = [sections.missing_section(fits[0], patterns)] if patterns is not None and patterns.n_incomplete else []
    limitations = dict.fromkeys(limitation for fit in fits for limitation in checks.limitations(fit))
    return [
        sections.summary_section(fits, predictions.key_figures(evaluated, fits[0]), _notes(fits, evaluated, predicted)),
        predictions.section(fits, evaluated, external, predicted),
        *([] if evaluated is None else [predictions.calibration(fits, evaluated, predicted)]),
        *([] if averages is None else [averages]),
        *found_of,
        *missing,
        sections.model_section(fits),
        sections.data_section(fits, data.describe(evaluated, owner, fits[0])),
        ending,
        Section("Limitations", tuple(limitations)),
    ]


def _notes(fits: Sequence[Fit], evaluated: Evaluation | None, predicted: Sequence[Predicted]) -> list[Check]:
    """Results of all checks: prediction, calibration, separation, data, convergence."""
    notes = []
    if evaluated is not None:
        notes += checks.prediction_checks(evaluated, hinge=not fits[0].spec.likelihood.normalised)
        notes += checks.calibration_checks(evaluated, predicted)
        notes += checks.separation_checks(fits, evaluated)
    if len(fits) == 1:
        return [*notes, *checks.fit_checks(fits[0])]
    bad = [(fit, check) for fit in fits for check in checks.fit_checks(fit) if not check.good]
    notes += [Check(False, f"{fit.classes[1]!s}: {check.text}") for fit, check in bad]
    return notes if bad else [*notes, Check(True, f"All {len(fits)} fits converged.")]
