"""The guard of formulas: what formulaic would evaluate is read as a syntax tree first.

Only columns, numbers, strings, arithmetic, comparisons and the functions listed here may stand in a factor.
"""

import ast
from collections.abc import Iterator

from formulaic.utils.code import sanitize_variable_names

from vbsvm.design.spelling import meant

_BASES = ("bs", "cc", "cr", "cs", "poly")
_SCALES = ("C", "I", "center", "scale", "standardize")
_NUMBERS = ("abs", "cos", "exp", "exp2", "exp10", "expm1", "log", "log1p", "log2", "log10", "sin", "sqrt", "tanh")
FUNCTIONS = frozenset((*_BASES, *_SCALES, *_NUMBERS))
CONTRASTS = frozenset(("treatment", "sum", "helmert", "diff", "poly", "sas"))
# A basis of a billion columns is a typing error, or worse.
LARGEST_SETTING = 1000
LARGEST_DEGREE = 9
RESERVED = ("Intercept", "(intercept)")

_ARITHMETIC = (ast.Add, ast.Sub, ast.Mult, ast.Div, ast.Pow, ast.Mod, ast.FloorDiv, ast.BitAnd, ast.BitOr)


class FormulaError(ValueError):
    """A formula that can't be read, or that may not be."""


def column_of(name: str, data_columns: list[str], what: str) -> str:
    """Name of a column, with or without backticks."""
    bare = name[1:-1] if len(name) > 1 and name[0] == name[-1] == "`" else name
    if bare in RESERVED:
        raise FormulaError(f"A column may not be called {bare!r}, as the intercept is: rename it.")
    if bare not in data_columns:
        raise FormulaError(
            f"{what} must be a column; {bare!r} is none of {_listed(data_columns)}.{meant(bare, data_columns)}"
        )
    return bare


def _listed(names: list[str]) -> str:
    shown = ", ".join(map(repr, names[:12]))
    return shown + (f" and {len(names) - 12} more" if len(names) > 12 else "")


def columns_of(expression: str, data_columns: list[str]) -> list[str]:
    """Check one factor as a syntax tree; give the columns that occur in it."""
    quoted: dict[str, str] = {}
    try:
        # What is checked must be what formulaic evaluates, so its own reading of backticks is used.
        text = sanitize_variable_names(expression, dict.fromkeys(data_columns), quoted)
        tree = ast.parse(text.strip(), mode="eval")
    except (SyntaxError, ValueError, RecursionError) as error:
        raise FormulaError(
            f"{expression!r} is neither a column nor an expression. Put backticks around names with blanks or signs. "
            f"Columns: {_listed(data_columns)}."
        ) from error
    return list(_check(tree.body, expression, quoted, data_columns))


def _check(node: ast.AST, whole: str, quoted: dict[str, str], data_columns: list[str]) -> Iterator[str]:
    """Walk the syntax tree, yield columns, and raise at the first thing that is not on the list."""

    def inner(*nodes: ast.AST) -> Iterator[str]:
        for child in nodes:
            yield from _check(child, whole, quoted, data_columns)

    match node:
        case ast.Constant(value=bool() | int() | float() | str() | None):
            pass
        case ast.Name(id=name):
            yield column_of(
                quoted.get(name, name), data_columns, f"{name!r} in {whole!r}" if name not in quoted else whole
            )
        case ast.Call(func=ast.Name(id=function), args=args, keywords=keywords) if function in FUNCTIONS:
            if function in data_columns:
                raise FormulaError(f"The column {function!r} hides the function of that name in {whole!r}: rename it.")
            if function == "C" and not (args and isinstance(args[0], ast.Name)):
                raise FormulaError(f"C(…) in {whole!r} takes a column.")
            if any(keyword.arg is None for keyword in keywords):
                raise FormulaError(f"** in the call {whole!r} is not allowed.")
            for setting in args[1:]:
                _require_setting(setting, whole, LARGEST_DEGREE if function == "poly" else LARGEST_SETTING)
            for keyword in keywords:
                _require_setting(keyword.value, whole, LARGEST_DEGREE if keyword.arg == "degree" else LARGEST_SETTING)
            yield from inner(*args[:1])
        case ast.Call(func=ast.Name(id="s")):
            raise FormulaError(f"s(…) must stand alone, joined to the rest by +; in {whole!r} it does not.")
        case ast.Call(func=function):
            called = ast.unparse(function)
            raise FormulaError(f"{called!r} in {whole!r} is not a known function: {', '.join(sorted(FUNCTIONS))}, s.")
        case ast.BinOp(left=left, op=op, right=right) if isinstance(op, _ARITHMETIC):
            found = [*inner(left, right)]
            texts = [side for side in (left, right) if isinstance(side, ast.Constant) and isinstance(side.value, str)]
            if texts or (isinstance(op, ast.Pow) and not [*inner(left)]):
                raise FormulaError(f"{ast.unparse(node)!r} in {whole!r} does not calculate with columns.")
            yield from found
        case ast.UnaryOp(op=ast.USub() | ast.UAdd() | ast.Invert(), operand=operand):
            yield from inner(operand)
        case ast.Compare(left=left, comparators=others, ops=ops) if not any(
            isinstance(op, (ast.In, ast.NotIn, ast.Is, ast.IsNot)) for op in ops
        ):
            yield from inner(left, *others)
        case ast.List(elts=elements) | ast.Tuple(elts=elements):
            yield from inner(*elements)
        case _:
            raise FormulaError(
                f"{ast.unparse(node)!r} in {whole!r} is not allowed: a formula takes columns, numbers, arithmetic and "
                f"the functions {', '.join(sorted(FUNCTIONS))}, s. Add a column to the data for anything else."
            )


def _require_setting(node: ast.AST, whole: str, largest: int) -> None:
    """Refuse settings of functions but literals of a moderate size, lists of them, and contrasts."""
    match node:
        case ast.Constant(value=bool() | float() | str() | None):
            return
        case ast.Constant(value=int(value)) if abs(value) <= largest:
            return
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() | float())):
            return
        case ast.List(elts=elements) | ast.Tuple(elts=elements) if len(elements) <= LARGEST_SETTING:
            for element in elements:
                _require_setting(element, whole, 10**15)
            return
        case ast.Attribute(value=ast.Name(id="contr"), attr=name) if name in CONTRASTS:
            return
        case ast.Call(func=ast.Attribute(value=ast.Name(id="contr"), attr=name), args=args, keywords=keywords) if (
            name in CONTRASTS and all(keyword.arg is not None for keyword in keywords)
        ):
            for element in (*args, *(keyword.value for keyword in keywords)):
                _require_setting(element, whole, LARGEST_SETTING)
            return
    raise FormulaError(
        f"{ast.unparse(node)!r} in {whole!r}: a setting is a number (up to {largest}), text, or a list of these."
    )
