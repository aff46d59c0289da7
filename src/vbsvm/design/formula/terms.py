"""Terms of a part of a formula, counted before formulaic expands them, which could take hours."""

import re
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from math import comb, inf
from typing import Any, TypeVar
from unicodedata import is_normalized

from formulaic.errors import FormulaicError
from formulaic.parser import DefaultFormulaParser
from formulaic.parser.types import ASTNode, Term, Token

from vbsvm.design.formula.sandbox import FormulaError, clipped

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
    "insuffient arguments": "a term is missing beside a sign, or a bracket is empty",
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
    names = frozenset(arg.token for node in nodes for arg in node.args if _is_name(arg))
    return tuple(sorted(terms_found, key=lambda term: term.degree)), names


def _is_name(arg: object) -> bool:
    """Whether a node is a column name."""
    return isinstance(arg, Token) and arg.kind is Token.Kind.NAME


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
        sides = [sizes.pop(id(arg)) if isinstance(arg, ASTNode) else _of_token(arg) for arg in node.args]
        leaves = frozenset().union(*(names for _, names in sides))
        symbol, counts = node.operator.symbol, [count for count, _ in sides]
        if symbol in ("+", "-") or len(counts) != 2:
            count, work = (counts[0] if symbol == "-" else sum(counts)), 0.0
        else:
            count, work = _multiplied(symbol, *counts, power=_power(list(node.args)[1]) if symbol in ("**", "^") else 1)
        count = min(count, 2.0 ** len(leaves)) if work else count
        if work > MAX_PRODUCTS or (work and count > MAX_TERMS) or count > MAX_SUM_LENGTH:
            raise FormulaError(
                f"{clipped(text)} makes too many terms: up to {MAX_TERMS} interactions are formed. Write those that "
                "you need as a:b, or take fewer columns or a lower power."
            )
        sizes[id(node)] = count, leaves


def _of_token(token: Token) -> tuple[float, frozenset[str]]:
    """A token is one term."""
    return 1.0, frozenset((str(token.token),))


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
