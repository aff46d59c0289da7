"""Sections into the template, and a text into a file: the part of a page that does not know what it tells."""

import base64
import hashlib
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING

from vbsvm.base import printing
from vbsvm.plots import style
from vbsvm.report.blocks import Section
from vbsvm.storage.atomic import replacing

if TYPE_CHECKING:
    from jinja2 import Environment


def document(title: str, sections: Sequence[Section]) -> str:
    """The page as text."""
    environment = _environment()
    folder = files("vbsvm.report")
    script = (folder / "page.js").read_text(encoding="utf-8")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    page = environment.from_string((folder / "page.html.j2").read_text(encoding="utf-8")).render(
        title=title,
        sections=sections,
        css=(folder / "page.css").read_text(encoding="utf-8"),
        script=script,
        script_hash=digest,
    )
    return printing.visible_lines(page)


def place(path: Path, text: str) -> Path:
    """Write a file, or replace it, at once or not at all."""
    with replacing(path) as file:
        file.write(text.encode("utf-8", "replace"))
    return path


def require_parts() -> None:
    """Refuse to begin where a page could not be written in the end."""
    _environment()
    style.new_figure()


def _environment() -> "Environment":
    try:
        from jinja2 import Environment, StrictUndefined
    except ImportError as error:
        raise ImportError("A report needs jinja2 and matplotlib: pip install 'vbsvm[report]'.") from error
    return Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
