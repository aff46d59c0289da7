"""Sandbox of formulas: factors are parsed as syntax trees and checked before formulaic evaluates them.

Only columns, numbers, arithmetic, comparisons and the functions listed here may stand in a factor; functions' settings
are literals of a moderate size. So nothing that passes can run code, or take memory that the data do not ask for.
"""

import ast
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from formulaic.utils.code import sanitize_variable_names

from vbsvm.design.formula.terms import NUMBERS, FormulaError, clipped, column_of
from vbsvm.design.values import did_you_mean, join_names

# What each function takes behind its first argument, in order.
_BOUNDS = ("lower_bound", "upper_bound")
_CUBIC = ("df", "knots", *_BOUNDS, "constraints", "extrapolation")
_BASES = {
    "bs": ("df", "knots", "degree", "include_intercept", *_BOUNDS, "extrapolation"),
    "cc": _CUBIC,
    "cr": _CUBIC,
    "cs": _CUBIC,
    "poly": ("degree", "raw"),
}
_SETTINGS = {
    **_BASES,
    "C": ("contrasts", "levels", "spans_intercept"),
    "I": (),
    "center": (),
    "scale": ("center", "scale", "ddof"),
    "standardize": ("center", "rescale", "ddof"),
    **dict.fromkeys(NUMBERS, ()),
}
# They give several columns, or none that can be calculated with.
_OUTERMOST = frozenset(("C", *_BASES))
FUNCTIONS = frozenset(_SETTINGS)
CONTRASTS = frozenset(("treatment", "sum", "helmert", "diff", "poly", "sas"))
# A basis of a billion columns is a typing error, or worse.
MAX_SETTING = 1000
MAX_DEGREE = 9
# Whole numbers beyond this one are not exact in floating point.
MAX_NUMBER = 2**53

_ARITHMETIC = (ast.Add, ast.Sub, ast.Mult, ast.Div, ast.Pow, ast.Mod, ast.FloorDiv, ast.BitAnd, ast.BitOr)
_COMPARISONS = (ast.Eq, ast.NotEq, ast.Lt, ast.LtE, ast.Gt, ast.GtE)


def columns_of(expression: str, data_columns: list[str]) -> list[str]:
    """Check a factor as a syntax tree; return its columns."""
    quoted: dict[str, str] = {}
    try:
        # What is checked must be what formulaic evaluates, so its own reading of backticks is used.
        text = sanitize_variable_names(expression, dict.fromkeys(data_columns), quoted)
        tree = ast.parse(text.strip(), mode="eval")
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise FormulaError(
            f"{clipped(expression)} is neither a column nor an expression. Put backticks around names with blanks or "
            f"signs. Columns: {join_names(data_columns)}."
        ) from error
    return list(_Check(clipped(expression), quoted, data_columns).of_factor(tree.body))


def width_of(expression: str) -> int:
    """Maximum number of columns of a numeric factor, which must have been checked."""
    try:
        node = ast.parse(sanitize_variable_names(expression, {}, {}).strip(), mode="eval").body
    except SyntaxError:  # a column's bare name
        return 1
    if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in _BASES):
        return 1
    values = [_literal(value) for _, value in _settings(_BASES[node.func.id], node.args[1:], node.keywords)]
    sizes = [len(value) if isinstance(value, list | tuple) else value for value in values]
    return sum(size for size in sizes if type(size) is int and size > 0) + MAX_DEGREE


class _Check:
    """Walks the syntax tree of a factor: yields columns, and raises at anything that is not allowed."""

    def __init__(self, whole: str, quoted: dict[str, str], data_columns: list[str]) -> None:
        self.whole, self.quoted, self.data_columns = whole, quoted, data_columns

    def of_factor(self, node: ast.AST) -> Iterator[str]:
        """Columns of a whole factor, which may be a basis or a category."""
        match node:
            case ast.Call(func=ast.Name(id=function)) if function in _OUTERMOST:
                yield from self._call(node, function)
            case _:
                yield from self._number(node)

    def _number(self, node: ast.AST) -> Iterator[str]:
        """Columns of an expression with one number per row."""
        match node:
            case ast.Constant(value=bool() | int() | float() as value):
                if not (math.isfinite(value) if isinstance(value, float) else abs(value) <= MAX_NUMBER):
                    raise FormulaError(
                        f"A number in {self.whole} is too large: write it as 1e20, or rescale the column."
                    )
            case ast.Name(id=name):
                what = f"{name!r} in {self.whole}" if name not in self.quoted else self.whole
                yield column_of(self.quoted.get(name, name), self.data_columns, what)
            case ast.Call(func=ast.Name(id=function)) if function in FUNCTIONS - _OUTERMOST:
                yield from self._call(node, function)
            case ast.Call(func=function):
                self._refuse_call(function)
            case ast.BinOp(left=left, op=op, right=right) if isinstance(op, _ARITHMETIC):
                columns = [*self._number(left)]
                if isinstance(op, ast.Pow) and not columns:
                    raise FormulaError(f"{clipped(ast.unparse(node))} in {self.whole} does not calculate with columns.")
                yield from (*columns, *self._number(right))
            case ast.UnaryOp(op=ast.USub() | ast.UAdd() | ast.Invert(), operand=operand):
                yield from self._number(operand)
            case ast.Compare(left=left, comparators=[right], ops=[op]) if isinstance(op, _COMPARISONS):
                for side in (left, right):
                    if not (isinstance(side, ast.Constant) and isinstance(side.value, str)):
                        yield from self._number(side)
            case ast.Compare(comparators=[_, *_], ops=ops) if all(isinstance(op, _COMPARISONS) for op in ops):
                raise FormulaError(f"{self.whole} compares three things at once: write (a < b) & (b < c).")
            case ast.Constant(value=str() as value):
                raise FormulaError(
                    f"{clipped(value)} in {self.whole} is text, which can only be compared with a column."
                )
            case _:
                raise FormulaError(
                    f"{clipped(ast.unparse(node))} in {self.whole} is not allowed: a formula takes columns, numbers, "
                    f"arithmetic and the functions {_functions()}. Add a column to the data for anything else."
                )

    def _refuse_call(self, function: ast.AST) -> None:
        """Raise an error for a function that is not allowed."""
        called = ast.unparse(function)
        if called == "s":
            raise FormulaError(f"s(…) must stand alone, joined to the rest by +; in {self.whole} it does not.")
        if called in _OUTERMOST:
            raise FormulaError(f"{called}(…) in {self.whole} can't be calculated with: let it stand alone.")
        near = did_you_mean(called.rpartition(".")[2], [*FUNCTIONS, "s"])
        raise FormulaError(f"{clipped(called)} in {self.whole} is not a known function: {_functions()}.{near}")

    def _call(self, call: ast.Call, function: str) -> Iterator[str]:
        """Check a call and its settings; yield the columns of its first argument."""
        if function in self.data_columns:
            raise FormulaError(f"The column {function!r} hides the function of that name in {self.whole}: rename it.")
        first = call.args[0] if call.args else None
        if first is None or isinstance(first, ast.Starred) or (function == "C" and not isinstance(first, ast.Name)):
            raise FormulaError(f"{function}(…) in {self.whole} takes a column.")
        names = _SETTINGS[function]
        n_positional = 1 if function == "C" else len(names)
        if len(call.args) > 1 + n_positional or any(keyword.arg not in names for keyword in call.keywords):
            takes = f"a column and the settings {', '.join(names)}" if names else "one expression and no settings"
            raise FormulaError(f"{function}(…) in {self.whole} takes {takes}.")
        settings = _settings(names, call.args[1:], call.keywords)
        if len(dict(settings)) < len(settings):
            raise FormulaError(f"A setting of {function}(…) in {self.whole} is given twice.")
        for name, setting in settings:
            _check_setting(name, setting, self.whole)
        _check_size(function, {name: _literal(setting) for name, setting in settings}, self.whole)
        yield from self._number(first)


def _settings(
    names: Sequence[str], args: list[ast.expr], keywords: list[ast.keyword]
) -> list[tuple[str | None, ast.expr]]:
    """Names and values of settings, of which some are given by position."""
    return [*zip(names, args, strict=False), *((keyword.arg, keyword.value) for keyword in keywords)]


def _functions() -> str:
    """All allowed functions, for errors."""
    return f"{', '.join(sorted(FUNCTIONS))}, s"


def _check_size(function: str, given: dict[str | None, Any], whole: str) -> None:
    """Raise if the size of a basis is missing or invalid; its settings have been checked."""
    if function == "poly" and given.get("degree", 1) < 1:
        raise FormulaError(f"poly(…) in {whole} needs a degree from 1 to {MAX_DEGREE}.")
    if function not in ("bs", "cc", "cr", "cs") or ("knots" in given and "df" not in given):
        return
    least = {"bs": given.get("degree", 3) + given.get("include_intercept", False), "cc": 1}.get(function, 2)
    least = max(least, 1)
    if "knots" in given or given.get("df", least if function == "bs" else 0) < least:
        raise FormulaError(
            f"{function}(…) in {whole} needs knots or its size, as in df=5; df is at least {least} here."
        )


def _literal(node: ast.AST) -> Any:
    """Value of a literal; None for anything else, which no setting may be."""
    try:
        return ast.literal_eval(node)  # pyright: ignore[reportArgumentType]
    except (ValueError, TypeError, MemoryError, RecursionError):
        return None


def _check_setting(name: str | None, node: ast.AST, whole: str) -> None:
    """Raise if a setting is invalid."""
    match name, node:
        case "contrasts", ast.Attribute(value=ast.Name(id="contr"), attr=contrasts) if contrasts in CONTRASTS:
            return
        case "contrasts", ast.Call(func=ast.Attribute(value=ast.Name(id="contr"), attr=contrasts)) if (
            contrasts in CONTRASTS
        ):
            _check_contrasts(contrasts, node, whole)
            return
    fits, wanted = _RULES[name or ""]
    if not fits(_literal(node)):
        raise FormulaError(f"{clipped(ast.unparse(node))} in {whole}: {wanted} is needed.")


def _check_contrasts(name: str, call: ast.Call, whole: str) -> None:
    """Raise for settings of contrasts other than base, scale and scores."""
    known = {"treatment": ("base",), "sas": ("base",), "helmert": ("reverse", "scale"), "diff": ("backward",)}
    names = known.get(name, ("scores",) if name == "poly" else ())
    settings = _settings(names, call.args, call.keywords)
    rules: dict[str | None, Callable[[Any], bool]] = {"base": _is_label, "scores": _is_list(_is_number)}
    fits = len(call.args) <= len(names) and len(dict(settings)) == len(settings)
    if not (fits and all(key in names and rules.get(key, _is_flag)(_literal(value)) for key, value in settings)):
        raise FormulaError(f"contr.{name} in {whole} takes {' and '.join(names) if names else 'no settings'}.")


def _is_flag(value: Any) -> bool:
    return isinstance(value, bool)


def _is_number(value: Any) -> bool:
    return type(value) in (int, float) and abs(value) <= 1e300


def _is_label(value: Any) -> bool:
    return _is_number(value) or isinstance(value, str | bool)


def _is_whole(largest: int) -> Callable[[Any], bool]:
    return lambda value: type(value) is int and 0 <= value <= largest


def _is_list(fits: Callable[[Any], bool], least: int = 0, most: float = math.inf) -> Callable[[Any], bool]:
    return lambda values: isinstance(values, list | tuple) and least <= len(values) <= most and all(map(fits, values))


# What each setting may be: a literal of a moderate size, a list of these, or contrasts; and how errors say so.
_RULES: dict[str, tuple[Callable[[Any], bool], str]] = {
    "df": (_is_whole(MAX_SETTING), f"a setting is a number (up to {MAX_SETTING}); a whole one"),
    "degree": (_is_whole(MAX_DEGREE), f"a setting is a number (up to {MAX_DEGREE}); a whole one"),
    "ddof": (lambda value: value in (0, 1), "0 or 1"),
    **dict.fromkeys(_BOUNDS, (_is_number, "a number")),
    "extrapolation": (
        lambda value: value in ("raise", "clip", "na", "zero", "extend"),
        "'raise', 'clip', 'na', 'zero' or 'extend'",
    ),
    "constraints": (lambda value: value == "center", "'center'"),
    "knots": (_is_list(_is_number, 1, MAX_SETTING), f"a list of up to {MAX_SETTING} numbers"),
    "levels": (_is_list(_is_label, 1, MAX_SETTING), f"a list of up to {MAX_SETTING} levels"),
    "contrasts": (
        _is_list(_is_list(_is_number, 0, MAX_SETTING), 1, MAX_DEGREE**2),
        "contr.treatment, contr.treatment('b'), contr.sum, contr.helmert, contr.diff, contr.poly or contr.sas",
    ),
    **dict.fromkeys(("raw", "include_intercept", "spans_intercept"), (_is_flag, "True or False")),
    **dict.fromkeys(
        ("center", "scale", "rescale"), (lambda value: _is_flag(value) or _is_number(value), "True or False")
    ),
}
