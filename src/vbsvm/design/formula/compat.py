"""Compatibility with R, patsy and NumPy: rewrite what has a plain meaning in a formula, else give a hint.

This works on the text, before the sandbox parses it: nothing is evaluated. Also here: ``.``, which stands for columns.
"""

import keyword
import re
import unicodedata
from collections.abc import Container, Iterator, Sequence

from vbsvm.design.formula.sandbox import NUMBERS, FormulaError, clipped, not_text

_WORD = re.compile(r"[^\W\d]\w*(?:\.\w+)*")
_QUOTED = r"`[^`]*`|'[^']*'|\"[^\"]*\""
_TOKEN = re.compile(rf"{_QUOTED}|{_WORD.pattern}|\.?\d[\w.]*|%\s*in\s*%|%[%*/ox]*%|\s+|.", re.DOTALL)
_SAME = {"factor": "C", "as.factor": "C", "as_factor": "C"}
_CONTRASTS = {"Treatment": "contr.treatment", "Sum": "contr.sum", "Helmert": "contr.helmert", "Diff": "contr.diff"}
_CONTRASTS["Poly"] = "contr.poly"
_HINTS = {
    **dict.fromkeys(("ns", "rcs"), "take s(x), whose size is inferred, or cr(x, df=4), a natural cubic spline"),
    **dict.fromkeys(
        ("te", "ti", "t2"), "smooth surfaces are not available: take s(a) + s(b), or products such as a * b"
    ),
    "offset": "an offset is not available: the score has no term with a known coefficient",
    "cut": "cut the column first, as in data['x3'] = pandas.cut(data['x'], 3), and take x3",
    "relevel": "write C(x, contr.treatment('b')), where b is the reference",
    "ordered": "write C(x, contr.poly)",
    "interaction": "write a:b",
    **dict.fromkeys(("as.numeric", "as.integer"), "make the column a number in the data first"),
    "lag": "add a column with the shifted values to the data",
    "Q": "put the name in backticks, as in `my column`",
    "re": "write (1 | g)",
}


def rewrite(text: str, columns: Container[str] = ()) -> str:
    """Replace names from R, patsy or NumPy by the formula's own.

    ``factor(x)`` is C(x), ``np.log(x)`` is log(x), ``Treatment(reference="b")`` in C is contr.treatment(base="b"), and
    ``^`` within a function is ``**``, and a column such as ``age.years`` needs no backticks. What would be taken for
    something else is refused.
    """
    tokens: list[str] = []
    for token, following, functions in _scan(text):
        if following == "(" and _WORD.fullmatch(token):
            tokens.append(_function(token, tokens, functions))
        elif not functions:
            _check_sign(token)
            tokens.append(token)
        elif token == "^":
            tokens.append("**")
        elif token[0] == "`":
            tokens.append(_evaluated(token))
        elif _WORD.fullmatch(token):
            _check_normal(token)
            is_column = "." in token and token in columns
            tokens.append(f"`{token}`" if is_column else _setting(token, following, tokens, functions))
        else:
            tokens.append(token)
    return "".join(tokens)


def expand_dot(text: str, columns: Sequence[str]) -> str:
    """Replace every stand-alone ``.`` by these columns."""
    tokens = []
    for token, _, functions in _scan(text):
        if token == ".":
            if functions:
                raise FormulaError(f". in {clipped(text)} stands for several columns, and can't stand in a function.")
            tokens.append(f"({' + '.join(in_backticks(columns))})")
        else:
            tokens.append(token)
    return "".join(tokens)


def in_backticks(columns: Sequence[str]) -> list[str]:
    """Column names quoted for a formula."""
    if not columns:
        raise FormulaError(". stands for no column: the data have none but the outcome, groups and weights.")
    for name in columns:
        check_name(name)
    return [f"`{name}`" for name in columns]


def check_name(name: object) -> None:
    """Reject names with characters that formulaic can't parse even in backticks."""
    if not isinstance(name, str):
        raise FormulaError(not_text(name))
    if name in ("1", ".", "~", "") or "`" in name or name[-1] == "\\" or any(name.count(quote) % 2 for quote in "'\""):
        raise FormulaError(f"A column called {name!r} can't stand in a formula, which would misread it: rename it.")


def _scan(text: str) -> Iterator[tuple[str, str, list[str]]]:
    """Yield each token, the next one, and the enclosing functions."""
    tokens = _TOKEN.findall(text)
    brackets: list[str] = []
    before = ""
    for token, following in zip(tokens, [*tokens[1:], ""], strict=True):
        if token in (")", "]", "}") and brackets:
            brackets.pop()
        yield token, following, [name for name in brackets if name]
        if token in ("(", "[", "{"):
            called = before if before[:1] == "`" or _WORD.fullmatch(before) else ""
            brackets.append(called or ("{" if token == "{" else ""))
        before = token


def _function(name: str, before: Sequence[str], functions: Sequence[str]) -> str:
    """Name of a function in formulas."""
    _check_normal(name)
    if functions and functions[-1] in ("C", *_SAME) and name in _CONTRASTS:
        return _CONTRASTS[name] if _is_setting(before) else name
    if (bare := re.sub(r"^(np|numpy)\.", "", name)) in NUMBERS:
        return bare
    if name in _HINTS:
        raise FormulaError(f"{name}(…) is not a function of formulas here: {_HINTS[name]}.")
    return _SAME.get(name, name)


def _setting(name: str, following: str, before: Sequence[str], functions: Sequence[str]) -> str:
    """Name of a setting inside a function call."""
    if functions[-1] in ("C", *_SAME) and name in _CONTRASTS and _is_setting(before):
        return _CONTRASTS[name]
    return "base" if name == "reference" and functions[-1] == "Treatment" and following.strip() in ("", "=") else name


def _is_setting(before: Sequence[str]) -> bool:
    """Whether the next token is a setting: it follows a comma or an equals sign."""
    last = next((token for token in reversed(before) if not token.isspace()), "")
    return last in (",", "=")


def _evaluated(quoted: str) -> str:
    """A quoted name inside a function, without backticks if it is an identifier."""
    name = quoted[1:-1]
    if keyword.iskeyword(name):
        raise FormulaError(
            f"A column called {name!r} can't stand within a function, which would misread it: rename it."
        )
    _check_normal(name)
    return name if name.isidentifier() else quoted


def _check_normal(name: str) -> None:
    """Reject a name that Python normalises to another one, where it is evaluated."""
    normal = unicodedata.normalize("NFKC", name)
    if normal != name:
        raise FormulaError(
            f"{name!r} has letters that are read as {normal!r} within functions, and would be taken for that: rename "
            "the column."
        )


def _check_sign(token: str) -> None:
    """Reject operators with another meaning in R."""
    if token[0] == "%" and "in" in token:
        raise FormulaError("%in% is not available: write a/b for a and b within a, or a:b.")
    if token[0] == "%":
        raise FormulaError(f"{token} has no meaning between terms: write I(a % b) for a remainder.")
