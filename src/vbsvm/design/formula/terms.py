"""The text of a formula: what R, patsy and NumPy have is rewritten or gets a hint; and terms of its parts.

Text is rewritten before the sandbox parses it, and terms are counted before formulaic expands them, which could take
hours: nothing is evaluated. Also here: names of columns, and ``.``, which represents columns.
"""

import keyword
import re
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from functools import lru_cache
from math import comb, inf
from typing import Any, TypeVar
from unicodedata import is_normalized, normalize

from formulaic.errors import FormulaicError
from formulaic.parser import DefaultFormulaParser
from formulaic.parser.types import ASTNode, Term, Token

from vbsvm.design.values import did_you_mean, join_names

# Functions of numbers, by the names that NumPy has for them.
NUMBERS = frozenset(
    ("abs", "cos", "exp", "exp2", "exp10", "expm1", "log", "log1p", "log2", "log10", "sin", "sqrt", "tanh")
)
RESERVED = ("Intercept", "(intercept)")

_WORD = re.compile(r"[^\W\d]\w*(?:\.\w+)*")
_QUOTED = r"`[^`]*`|'[^']*'|\"[^\"]*\""
_TOKEN = re.compile(rf"{_QUOTED}|{_WORD.pattern}|\.?\d[\w.]*|%\s*in\s*%|%[%*/ox]*%|\s+|.", re.DOTALL)
_SAME = {"factor": "C", "as.factor": "C", "as_factor": "C"}
_CONTRASTS = {name: f"contr.{name.lower()}" for name in ("Treatment", "Sum", "Helmert", "Diff", "Poly")}
_HINTS = {
    **dict.fromkeys(("ns", "rcs"), "use s(x), whose smoothness is inferred, or cr(x, df=4), a natural cubic spline"),
    **dict.fromkeys(
        ("te", "ti", "t2"), "smooth surfaces are not supported: use s(a) + s(b), or products such as a * b"
    ),
    "offset": "offsets are not supported",
    "cut": "cut the column first, as in data['x3'] = pandas.cut(data['x'], 3), and use x3",
    "relevel": "write C(x, contr.treatment('b')), where b is the reference",
    "ordered": "write C(x, contr.poly)",
    "interaction": "write a:b",
    **dict.fromkeys(("as.numeric", "as.integer"), "make the column a number in the data first"),
    "lag": "add a column with the shifted values to the data",
    "Q": "put the name in backticks, as in `my column`",
    "re": "write (1 | g)",
}


class FormulaError(ValueError):
    """An invalid formula."""


def clipped(text: str) -> str:
    """Quote a text in an error, cut if it is long."""
    return repr(text if len(text) <= 200 else f"{text[:199]}…")


def column_of(name: str, data_columns: list[str], what: str) -> str:
    """A column's name, with or without backticks, checked."""
    bare = name[1:-1] if len(name) > 1 and name[0] == name[-1] == "`" else name
    if bare in RESERVED:
        raise FormulaError(f"A column may not be called {bare!r}, as the intercept is: rename it.")
    for column in data_columns:
        if not isinstance(column, str) and str(column) == bare:
            check_name(column)
    if bare not in data_columns:
        raise FormulaError(
            f"{what} must be a column; {clipped(bare)} is none of {join_names(data_columns)}."
            f"{did_you_mean(bare, data_columns)}"
        )
    return bare


def rewrite(text: str, columns: Container[str] = ()) -> str:
    """Replace names from R, patsy or NumPy by the formula's own.

    ``factor(x)`` is C(x), ``np.log(x)`` is log(x), ``Treatment(reference="b")`` in C is contr.treatment(base="b"), and
    ``^`` within a function is ``**``, and a column such as ``age.years`` needs no backticks. What would be taken for
    something else is refused.
    """
    tokens: list[str] = []
    for token, following, functions in _scan(text):
        if token in _CONTRASTS and functions and functions[-1] in ("C", *_SAME) and _is_setting(tokens):
            tokens.append(_CONTRASTS[token])
        elif following == "(" and _WORD.fullmatch(token):
            tokens.append(_function(token))
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
            is_base = token == "reference" and functions[-1] == "Treatment" and following.strip() in ("", "=")
            tokens.append(f"`{token}`" if is_column else "base" if is_base else token)
        else:
            tokens.append(token)
    return "".join(tokens)


def expand_dot(text: str, columns: Sequence[str]) -> str:
    """Replace every stand-alone ``.`` by these columns."""
    tokens = []
    for token, _, functions in _scan(text):
        if token == ".":
            if functions:
                raise FormulaError(f". in {clipped(text)} represents several columns: functions take one column.")
            tokens.append(f"({' + '.join(in_backticks(columns))})")
        else:
            tokens.append(token)
    return "".join(tokens)


def in_backticks(columns: Sequence[str]) -> list[str]:
    """Column names quoted for a formula."""
    if not columns:
        raise FormulaError(". represents no column: the data have none but the outcome, grouping factors and weights.")
    for name in columns:
        check_name(name)
    return [f"`{name}`" for name in columns]


def check_name(name: object) -> None:
    """Reject names that are not text, or have characters that formulaic can't parse even in backticks."""
    if not isinstance(name, str):
        raise FormulaError(
            f"The column {name!r} has a name that is not text, and can't stand in a formula: name columns by text, as "
            "in data.columns = data.columns.map(str)."
        )
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


def _function(name: str) -> str:
    """Name of a function in formulas."""
    _check_normal(name)
    if (bare := re.sub(r"^(np|numpy)\.", "", name)) in NUMBERS:
        return bare
    if name in _HINTS:
        raise FormulaError(f"{name}(…) is not a function of formulas here: {_HINTS[name]}.")
    return _SAME.get(name, name)


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
    normal = normalize("NFKC", name)
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


# Products of twelve columns, and all pairs of ninety-nine.
MAX_TERMS = 5000
# What is multiplied out before equal terms are joined: triples of thirty columns.
MAX_PRODUCTS = 30_000
MAX_POWER = 5
DECOMPOSED = (
    " Its letters are decomposed (Unicode form NFD), which needs backticks: write it in composed letters (NFC) if the "
    "columns are named so."
)
# A plain sum may have a term for each column of a wide table.
MAX_SUM_LENGTH = 20_000

T = TypeVar("T")

# What formulaic says, and what is said here.
_MESSAGES = {
    "Missing operator between": "a sign such as + is missing between two terms, or backticks around a name with blanks",
    "Numeric literals other": "a number but 0 and 1 is no term; write I(3 * x) for arithmetic",
    "Term already seen": "a number but 0 and 1 is no term; write I(3 * x) for arithmetic",
    "String literals": "text is no term; put backticks around names of columns",
    "insuffient arguments": "a term is missing next to an operator, or a bracket is empty",
    "The right-hand argument": f"a power is a whole number from 1 to {MAX_POWER}",
    "Unknown operator": "a sign in it has no meaning between terms; put arithmetic in I(…), and backticks around names "
    "with such signs",
    "Operator `~`": "there is a second ~ in it",
}


def parse_terms(text: str) -> tuple[Term, ...]:
    """Parse a formula without ~ to terms; nothing is evaluated."""
    return _parse(text)[0]


def names_in(text: str) -> frozenset[str]:
    """Names of all columns that stand alone, removed ones included."""
    return _parse(text)[1]


@lru_cache(maxsize=32)
def _parse(text: str) -> tuple[tuple[Term, ...], frozenset[str]]:
    """Terms and names of a part of a formula, cached."""
    parser = DefaultFormulaParser()
    tree = _attempt(lambda: parser.parse(text, target="ast"), text)
    nodes = _in_order(tree) if isinstance(tree, ASTNode) else []
    _check_n_terms(nodes, text)
    terms_found = _attempt(lambda: parser.get_terms_from_ast(tree, context={})._simplify(), text)
    if not isinstance(terms_found, Iterable) or not all(isinstance(term, Term) for term in terms_found):
        raise FormulaError(f"{clipped(text)} has several parts; one is expected.")
    tokens = [arg for node in nodes for arg in node.args if isinstance(arg, Token)]
    names = frozenset(token.token for token in tokens if token.kind is Token.Kind.NAME)
    return tuple(sorted(terms_found, key=lambda term: term.degree)), names


def _attempt(call: Callable[[], T], text: str) -> T:
    """Call formulaic's parser; explain its errors."""
    try:
        return call()
    except RecursionError:
        raise
    except Exception as error:  # whatever a parser of someone else's says of a text that it can't read
        said = str(error) if isinstance(error, FormulaicError) else ""
        why = next((ours for theirs, ours in _MESSAGES.items() if theirs in said), "it is not a sum of terms")
        between = re.match(r"Missing operator between (`.*?` and `.*?`)\.", said)
        place = f" ({between[1]})" if between else ""
        form = "" if is_normalized("NFC", text) else DECOMPOSED
        raise FormulaError(f"{clipped(text)} can't be read: {why}{place}.{form}") from error


def _in_order(tree: ASTNode[Any]) -> list[ASTNode[Any]]:
    """All nodes in post-order."""
    visited, stack = [], [tree]
    while stack:
        node = stack.pop()
        visited.append(node)
        stack += [arg for arg in node.args if isinstance(arg, ASTNode)]
    return visited[::-1]


def _check_n_terms(nodes: Sequence[ASTNode[Any]], text: str) -> None:
    """Raise for products and powers with too many terms."""
    sizes: dict[int, tuple[float, frozenset[str]]] = {}
    for node in nodes:
        sides = [sizes.pop(id(arg)) if isinstance(arg, ASTNode) else (1.0, {str(arg.token)}) for arg in node.args]
        leaves = frozenset[str]().union(*(names for _, names in sides))
        symbol, counts = node.operator.symbol, [count for count, _ in sides]
        if symbol in ("+", "-") or len(counts) != 2:
            count, work = (counts[0] if symbol == "-" else sum(counts)), 0.0
        else:
            count, work = _multiplied(symbol, *counts, power=_power(list(node.args)[1]) if symbol in ("**", "^") else 1)
        count = min(count, 2.0 ** len(leaves)) if work else count
        if work > MAX_PRODUCTS or (work and count > MAX_TERMS) or count > MAX_SUM_LENGTH:
            raise FormulaError(
                f"{clipped(text)} makes too many terms: up to {MAX_TERMS} interactions are formed. Write those that "
                "you need as a:b, or use fewer columns or a lower power."
            )
        sizes[id(node)] = count, leaves


def _power(arg: object) -> int:
    """The exponent, or 1 if it is invalid, which formulaic rejects later."""
    digits = arg.token if isinstance(arg, Token) else ""
    if digits.isdecimal() and (len(digits) > 3 or not 1 <= int(digits) <= MAX_POWER):
        raise FormulaError(f"Powers go up to {MAX_POWER} in a formula, from 1; got {clipped(digits)}.")
    return int(digits) if digits.isdecimal() else 1


def _multiplied(symbol: str, left: float, right: float, *, power: int) -> tuple[float, float]:
    """How many terms a product or power has at most, and how many products are formed for it."""
    match symbol:
        case "**" | "^":
            different = sum(comb(int(left), k) for k in range(1, power + 1)) if left < MAX_PRODUCTS else inf
            return different, left**power
        case ":":
            return left * right, left * right
        case "/" | "in":
            return left + right, left + right
    return left + right + left * right, left * right
