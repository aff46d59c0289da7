"""The page of a fit: which sections it has, and where it goes."""

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from vbsvm.plots.resolve_fit import Predicted
from vbsvm.report import checks, document, effects, evaluation, predictions, sections
from vbsvm.report.document import Check, Section
from vbsvm.report.effects import Owner
from vbsvm.report.evaluation import Evaluation
from vbsvm.results.fit import Fit


def write(
    path: str | os.PathLike[str],
    fits: Sequence[Fit],
    found: Sequence[Predicted] = (),
    title: str | None = None,
    owner: Owner | None = None,
) -> Path:
    """Write the report of a fit, or of an estimator's fits with their predicted rows, and give its path.

    ``owner`` is asked for effects.

    The same fit and rows give the same bytes. A file that is there already is replaced at once, or not at all.
    """
    if not isinstance(path, str | os.PathLike):
        raise TypeError(f"report: path must be the name of a file, such as 'report.html'; got {path!r}.")
    place = Path(path)
    if place.is_dir():
        raise ValueError(f"report: {place} is a directory; name a file in it, such as {place / 'report.html'}.")
    if not place.parent.is_dir():
        raise ValueError(f"report: there is no directory {place.parent}; create it first.")
    document.check_dependencies()
    title = sections.title_of(fits) if title is None else str(title)
    return document.write_page(place, document.document(title, _sections(fits, found, owner)))


def _sections(fits: Sequence[Fit], found: Sequence[Predicted], owner: Owner | None) -> list[Section]:
    given = evaluation.evaluate_given(fits, found, owner)
    known = evaluation.evaluate_left_out(fits, owner)
    if known is not None:
        found = [Predicted.from_left_out(known.rows, fits, k) for k in range(len(fits))]
    known = given if known is None else known
    of_each = [tuple(sections.fit_sections(fit, f"f{k}")) for k, fit in enumerate(fits)]
    endings = [sections.convergence_section(fit, f"f{k}") for k, fit in enumerate(fits)]
    found_of, ending = list(of_each[0]), endings[0]
    if len(fits) > 1:
        labels = [f"{fit.classes[1]!s} against the rest" for fit in fits]
        found_of = [Section(label, (), parts) for label, parts in zip(labels, of_each, strict=True)]
        parts = [replace(one, title=str(fit.classes[1])) for fit, one in zip(fits, endings, strict=True)]
        ending = Section("How the fits ended", (), tuple(parts))
    averages = None if owner is None else effects.section(owner, "f")
    patterns = fits[0].missing_patterns
    missing = [sections.missing_section(fits[0], patterns)] if patterns is not None and patterns.n_incomplete else []
    caution = dict.fromkeys(caveat for fit in fits for caveat in checks.limitations(fit))
    return [
        sections.summary_section(fits, predictions.key_figures(known, fits[0]), _notes(fits, known, found)),
        predictions.section(fits, known, given, found),
        *([] if known is None else [predictions.calibration(fits, known, found)]),
        *([] if averages is None else [averages]),
        *found_of,
        *missing,
        sections.model_section(fits),
        sections.data_section(fits),
        ending,
        Section("Before you trust it", tuple(caution)),
    ]


def _notes(fits: Sequence[Fit], known: Evaluation | None, found: Sequence[Predicted]) -> list[Check]:
    """The verdicts, the most important first: prediction, calibration, separation, the data, how the fits ended."""
    notes = []
    if known is not None:
        notes += checks.prediction_checks(known, hinge=not fits[0].spec.likelihood.normalised)
        notes += checks.calibration_checks(known, found)
        notes += checks.separation_checks(fits, known)
    if len(fits) == 1:
        return [*notes, *checks.fit_checks(fits[0])]
    bad = [(fit, one) for fit in fits for one in checks.fit_checks(fit) if not one.good]
    notes += [Check(False, f"{fit.classes[1]!s}: {one.text}") for fit, one in bad]
    return notes if bad else [*notes, Check(True, f"All {len(fits)} fits converged.")]
