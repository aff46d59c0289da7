"""Maths as MathML, which browsers draw themselves: pages need neither a script nor the network for it."""

from docutils import nodes
from docutils.utils.math import MathError, latex2mathml, pick_math_environment
from sphinx.application import Sphinx
from sphinx.util import logging
from sphinx.util.math import get_node_equation_number
from sphinx.writers.html5 import HTML5Translator

LOGGER = logging.getLogger(__name__)


def written(text: str, node: nodes.Node, *, as_block: bool) -> str:
    """The formula in MathML; one that cannot be read is a warning with its place."""
    try:
        return latex2mathml.tex2mathml(text, as_block=as_block)
    except MathError as error:
        LOGGER.warning("%s in %s", error, text, location=node)
        return ""


def inline(translator: HTML5Translator, node: nodes.math) -> None:
    """A formula in a line."""
    translator.body.append(written(node.astext(), node, as_block=False))
    raise nodes.SkipNode


def block(translator: HTML5Translator, node: nodes.math_block) -> None:
    """A displayed formula, in a box that scrolls on narrow screens."""
    text = node.astext().strip()
    if pick_math_environment(text) == "align*":
        text = rf"\begin{{aligned}}{text}\end{{aligned}}"
    translator.body.append(translator.starttag(node, "div", CLASS="math"))
    if node["number"]:
        translator.body.append(f'<span class="eqno">({get_node_equation_number(translator, node)})')
        translator.add_permalink_ref(node, "Link to this equation")
        translator.body.append("</span>")
    translator.body.append(written(text, node, as_block=True))
    translator.body.append("</div>")
    raise nodes.SkipNode


def setup(app: Sphinx) -> dict[str, bool]:
    """Name the renderer for ``html_math_renderer``."""
    app.add_html_math_renderer("mathml", (inline, None), (block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
