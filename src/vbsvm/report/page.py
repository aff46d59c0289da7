"""The page itself: sections into the template, and the text into a file."""

import base64
import hashlib
import os
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

from vbsvm.plots.subjects import Predicted
from vbsvm.report import caveats, overview, sections
from vbsvm.report.blocks import Section


def write(path: Any, fits: Sequence[Any], found: Sequence[Predicted] = (), title: str | None = None) -> Path:
    """Write the report of a fit, or of an estimator's fits with their predicted rows, and give its path.

    The same fit and rows give the same bytes. A file that is there already is replaced at once, or not at all.
    """
    place = Path(path)
    if place.is_dir():
        raise ValueError(f"report: {place} is a directory; name a file in it, such as {place / 'report.html'}.")
    if not place.parent.is_dir():
        raise ValueError(f"report: there is no directory {place.parent}; make it first.")
    text = render(fits, found, title)
    beside = place.with_name(f".{place.name}.{os.getpid()}.part")
    try:
        beside.write_bytes(text.encode("utf-8", "replace"))
        beside.replace(place)
    finally:
        beside.unlink(missing_ok=True)
    return place


def render(fits: Sequence[Any], found: Sequence[Predicted] = (), title: str | None = None) -> str:
    """The page as text."""
    environment = _environment()
    folder = files("vbsvm.report")
    script = (folder / "page.js").read_text(encoding="utf-8")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return environment.from_string((folder / "page.html.j2").read_text(encoding="utf-8")).render(
        title=overview.title_of(fits) if title is None else str(title),
        sections=_sections(fits, found),
        css=(folder / "page.css").read_text(encoding="utf-8"),
        script=script,
        script_hash=digest,
    )


def _sections(fits: Sequence[Any], found: Sequence[Predicted]) -> list[Section]:
    pairs = list(zip(fits, found or [None] * len(fits), strict=True))
    of_each = [tuple(sections.of_fit(fit, rows, f"f{k}")) for k, (fit, rows) in enumerate(pairs)]
    found_of = list(of_each[0])
    if len(fits) > 1:
        labels = [f"{fit.classes[1]!s} against the rest" for fit in fits]
        found_of = [Section(label, (), parts) for label, parts in zip(labels, of_each, strict=True)]
    known = dict.fromkeys(caveat for fit in fits for caveat in caveats.of(fit))
    return [
        overview.glance(fits, found, of_each),
        overview.model(fits),
        overview.data(fits),
        *found_of,
        Section("Before you trust it", tuple(known)),
    ]


def _environment() -> Any:
    try:
        from jinja2 import Environment, StrictUndefined
    except ImportError as error:
        raise ImportError("A report needs jinja2 and matplotlib: pip install 'vbsvm[report]'.") from error
    return Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
