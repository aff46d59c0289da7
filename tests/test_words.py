"""What users read is in the words of statistics and software engineering: home-made terms do not come back.

``python tests/test_words.py [PATH …]`` prints each place with the term and what to write instead.
"""

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parent.parent
PAGES = sorted({ROOT / "README.md", *(ROOT / "docs").glob("*.md"), *(ROOT / "docs" / "tutorials").glob("*.md")})
SOURCES = sorted((ROOT / "src").rglob("*.py")) + sorted((ROOT / "src").rglob("*.j2"))

TERMS = {
    r"climb(s|ed|ing)?": "optimise, optimisation",
    r"kinks?": "margin",
    r"rough": "may be unreliable, and why",
    r"gates?|gated": "inclusion indicator",
    r"spreads?": "standard error, posterior sd, dispersion",
    r"beside": "compared with, next to",
    r"rivals?": "baselines, alternatives",
    r"inputs": "predictors (features)",
    r"effects of (the )?groups|groups['’] effects": "random effects",
    r"groups speak|speaks? of": "a sentence whose subject can do what its verb says",
    r"(no|a) say in": "is ignored, is used",
    r"hardly|somewhat|mostly": "a number, or nothing",
    r"at hand|a long way off": "in memory, available; remote",
    r"stands? for|stood for": "represents",
    r"lies? in": "is stored in, is in",
    r"written out": "materialised",
    r"so many|as often as": "n, k times",
    r"shares? of": "proportion, fraction",
    r"information lost": "fraction of missing information",
    r"positive scores?|(change|border|unit) of the score": "decision value, linear predictor",
    r"rows wrong|wrong if all": "misclassified, misclassification rate",
    r"borders?": "decision boundary",
    r"where there is none|where there are none": "or None, if any",
    r"(probabilities|intervals) hold|(it|they|which|that) holds?(?= (for|where|when|if|as|only|well)\b)": "is valid",
    r"in short": "summary",
    r"how well it predicts": "predictive performance",
    r"how the fit ended": "convergence",
    r"before you trust it": "limitations",
    r"look at this": "caution",
    r"effects that people can read": "marginal effects and contrasts",
    r"is it any good|how sure is it": "model evaluation, uncertainty",
    r"law": "conditional distribution",
    r"head start": "subsample start",
    r"leaps?": "fixed-point step",
    r"rooms?|houses?|shel(f|ves)": "package, layer, cache",
}
# (file, term) -> why the term is right there
EXCEPTIONS: dict[tuple[str, str], str] = {
    ("src/vbsvm/model/layouts/arrow.py", "borders?"): "the border of an arrow matrix, as in linear algebra",
}

BANNED = {term: re.compile(rf"\b(?:{term})\b", re.IGNORECASE) for term in TERMS}
# Code, placeholders, addresses, formulas, arguments with their values, and headings of documented parameters.
CODE = re.compile(
    r"``?[^`]+``?|\{[^{}]*\}|<[^<>]*>|\]\([^)]*\)|https?://\S+|\$[^$]+\$|\b\w+=\S*|^ {4,8}\w+(, \w+)* : .*"
)


class Place(NamedTuple):
    """A banned term in a text that users read."""

    path: str
    line: int
    term: str
    text: str


def texts_of_page(path: Path) -> Iterator[tuple[int, str]]:
    """Yield lines of prose and of shown output with their numbers: code, formulas and references are left out."""
    fence = ""
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        if match := re.match(r"\s*(`{3,}|:{3,}|\$\$)(.*)", line):
            fence = "" if fence else match[1] + match[2]
        elif not fence or "text" in fence or ":::" in fence or "note" in fence:
            yield number, line


def texts_of_source(path: Path) -> Iterator[tuple[int, str]]:
    """Yield strings of more than two words, docstrings of what is public included, and the text of templates."""
    text = path.read_text(encoding="utf-8")
    if path.suffix != ".py":
        yield from enumerate(re.sub(r"\{[{%#].*?[#%}]\}", "", text, flags=re.DOTALL).splitlines(), 1)
        return
    tree = ast.parse(text)
    private = {id(string) for node in ast.walk(tree) if (string := _private_docstring(node)) is not None}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in private:
            for offset, line in enumerate(node.value.splitlines()):
                if len(line.split()) > 2:
                    yield node.lineno + offset, line


def _private_docstring(node: ast.AST) -> ast.AST | None:
    """The docstring of a module, or of a private class or function: for those who read the source."""
    if not isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
        return None
    if not isinstance(node, ast.Module) and not node.name.startswith("_"):
        return None
    first = node.body[0] if node.body else None
    return first.value if isinstance(first, ast.Expr) else None


def places(path: Path) -> Iterator[Place]:
    """Yield the banned terms of a page or source file that are not excepted."""
    name = path.relative_to(ROOT).as_posix()
    for number, line in texts_of_source(path) if "src" in path.parts else texts_of_page(path):
        prose = CODE.sub(" ", line)
        for term, pattern in BANNED.items():
            if pattern.search(prose) and (name, term) not in EXCEPTIONS:
                yield Place(name, number, term, line.strip())


@pytest.mark.parametrize("path", [*PAGES, *SOURCES], ids=lambda path: path.relative_to(ROOT).as_posix())
def test_no_banned_term_is_used(path):
    assert [*places(path)] == []


def test_every_exception_is_needed():
    used = {
        (name, term)
        for name, term in EXCEPTIONS
        for path in [ROOT / name]
        for _, line in (texts_of_source(path) if "src" in path.parts else texts_of_page(path))
        if BANNED[term].search(CODE.sub(" ", line))
    }
    assert used == set(EXCEPTIONS)


def test_banned_terms_are_found_in_prose_and_not_in_code(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("The spread is large.\n```python\nspread = 1\n```\n```text\nspread 2\n```\n", encoding="utf-8")
    found = [number for number, line in texts_of_page(page) if BANNED["spreads?"].search(line)]
    assert found == [1, 6]


def main() -> None:
    """Print the places in these files or folders, or in all."""
    chosen = [Path(name).resolve() for name in sys.argv[1:]] or [ROOT]
    count = 0
    for path in [*PAGES, *SOURCES]:
        if any(path == root or root in path.parents for root in chosen):
            for place in places(path):
                count += 1
                sys.stdout.write(
                    f"{place.path}:{place.line}: {place.term} -> {TERMS[place.term]}\n    {place.text[:160]}\n"
                )
    sys.stdout.write(f"{count} places\n")


if __name__ == "__main__":
    main()
