"""The page of a fit: which sections it has, and where it goes."""

import os
from collections.abc import Sequence
from pathlib import Path

from vbsvm.plots.resolve_fit import Predicted
from vbsvm.report import caveats, document, effects, overview, sections
from vbsvm.report.blocks import Section
from vbsvm.report.effects import Owner
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
    place = Path(path)
    if place.is_dir():
        raise ValueError(f"report: {place} is a directory; name a file in it, such as {place / 'report.html'}.")
    if not place.parent.is_dir():
        raise ValueError(f"report: there is no directory {place.parent}; create it first.")
    title = overview.title_of(fits) if title is None else str(title)
    return document.place(place, document.document(title, _sections(fits, found, owner)))


def _sections(fits: Sequence[Fit], found: Sequence[Predicted], owner: Owner | None) -> list[Section]:
    pairs = list(zip(fits, found or [None] * len(fits), strict=True))
    of_each = [tuple(sections.of_fit(fit, rows, f"f{k}")) for k, (fit, rows) in enumerate(pairs)]
    found_of = list(of_each[0])
    if len(fits) > 1:
        labels = [f"{fit.classes[1]!s} against the rest" for fit in fits]
        found_of = [Section(label, (), parts) for label, parts in zip(labels, of_each, strict=True)]
    averages = None if owner is None else effects.section(owner, "f")
    known = dict.fromkeys(caveat for fit in fits for caveat in caveats.of(fit))
    return [
        overview.glance(fits, found, of_each),
        overview.model(fits),
        overview.data(fits),
        *found_of,
        *([] if averages is None else [averages]),
        Section("Before you trust it", tuple(known)),
    ]
