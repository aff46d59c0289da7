"""Figures in a page: SVG without names that could meet those of another figure, in colours that follow the reader's.

The text that matplotlib wrote is read as XML and written anew: names from the data stay text, whatever is in them.
"""

import re
from collections.abc import Callable
from typing import TYPE_CHECKING
from xml.etree import ElementTree

from vbsvm.base.cached import new_lock
from vbsvm.plots import style
from vbsvm.report.blocks import Picture

if TYPE_CHECKING:
    from vbsvm.plots.style import Figure

_VARIABLES = {
    style.INK: "currentColor",
    style.MUTED: "var(--muted)",
    style.FAINT: "var(--faint)",
    style.BLUE: "var(--blue)",
    style.VERMILION: "var(--vermilion)",
    style.GREEN: "var(--green)",
    style.SKY: "var(--sky)",
    style.PAPER: "var(--paper)",
}
# On a narrow screen a figure shrinks to this share of its size, then it scrolls in its box; on a wide one it grows.
SMALLEST, LARGEST = 0.75, 1.35
PIXELS = 96 / 72
# matplotlib serves one thread at a time.
_DRAWING = new_lock()


def picture(key: str, alt: str, caption: str, draw: "Callable[[Figure], object]") -> Picture:
    """Draw into an empty figure; ``alt`` says what it shows to those who can't see it."""
    with _DRAWING:
        figure = style.new_figure()
        draw(figure)
        root = ElementTree.fromstring(style.svg_of(figure))
    for parent in root.iter():
        for child in list(parent):
            if _local(child.tag) in ("style", "metadata"):
                parent.remove(child)
    for element in root.iter():
        element.tag = _local(element.tag)
        element.attrib = {_local(name): _attribute(_local(name), value, key) for name, value in element.attrib.items()}
    width = PIXELS * float(root.attrib.pop("width").removesuffix("pt"))
    root.attrib.pop("height")
    sizes = f"max-width: {LARGEST * width:.0f}px; min-width: {SMALLEST * width:.0f}px"
    root.attrib |= {"role": "img", "aria-labelledby": f"{key}-title", "style": sizes}
    title = ElementTree.Element("title", {"id": f"{key}-title"})
    title.text = alt
    root.insert(0, title)
    return Picture(ElementTree.tostring(root, encoding="unicode", short_empty_elements=True), caption)


def _local(name: str) -> str:
    return name.rpartition("}")[2]


def _attribute(name: str, value: str, key: str) -> str:
    """Names with the figure's key before them, colours as variables of the page, and the page's own letters."""
    if name == "id":
        return f"{key}-{value}"
    if name == "href" and value.startswith("#"):
        return f"#{key}-{value[1:]}"
    value = re.sub(r"url\(#", f"url(#{key}-", value)
    if name == "style":
        value = re.sub(r"font-family: [^;]*(; )?", "", value)
        value = re.sub(r"font: [^;]*?(\d[\d.]*px)[^;]*", r"font-size: \1", value)
    if name in ("style", "fill", "stroke"):
        value = re.sub(r"#[0-9a-f]{6}\b", lambda found: _VARIABLES.get(found[0], found[0]), value)
    return value
