"""Parse a formula: split it into its parts, and reject what is not allowed before anything is evaluated.

``outcome ~ fixed + s(x) + (effects | group)``. The fixed part and the effects are left to formulaic, which evaluates
Python; so every factor in them first goes through ``formula.sandbox``. A formula can't run code.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import final

from formulaic.parser.types import Factor

from vbsvm.design.formula.sandbox import MAX_SETTING, columns_of
from vbsvm.design.formula.terms import (
    MAX_POWER,
    RESERVED,
    FormulaError,
    check_name,
    clipped,
    column_of,
    expand_dot,
    in_backticks,
    names_in,
    parse_terms,
    rewrite,
)

MAX_LENGTH = 20_000
MAX_DEPTH = 50
QUOTED_DEPTH = 10**6
SPLINE_SIZE = 20

_OPENING, _CLOSING = "([{", ")]}"


@final
@dataclass(frozen=True, slots=True)
class GroupTerm:
    """``(effects | columns)``: random effects that vary by group; ``written`` is the term as given."""

    effects: str
    columns: tuple[str, ...]
    written: str

    def __str__(self) -> str:
        """Normal form of the term: the key of its prior."""
        return f"({self.effects} | {':'.join(self.columns)})"


@final
@dataclass(frozen=True, slots=True)
class SplineTerm:
    """``s(x, k=20)``: a smooth curve."""

    expression: str
    size: int

    def __str__(self) -> str:
        """Normal form of the term: the key of its prior."""
        return f"s({self.expression})" if self.size == SPLINE_SIZE else f"s({self.expression}, k={self.size})"


@final
@dataclass(frozen=True, slots=True)
class FormulaParts:
    """A parsed formula."""

    text: str
    outcome: str
    fixed: str
    splines: tuple[SplineTerm, ...]
    groups: tuple[GroupTerm, ...]
    columns: tuple[str, ...]

    @property
    def inputs(self) -> frozenset[str]:
        """Columns other than outcome and groups, which may be missing."""
        groups = {name for term in self.groups for name in term.columns}
        return frozenset(self.columns) - groups - {self.outcome}


def read(formula: str, data_columns: list[str], weights: str | None = None) -> FormulaParts:
    """Parse a formula and check all its parts against the columns.

    ``weights`` is a column that ``.`` does not represent.
    """
    if not isinstance(formula, str):
        raise TypeError(f"The formula must be text such as 'y ~ x + (1 | g)'; got {formula!r}.")
    try:
        return _read(formula, data_columns, weights)
    except RecursionError:
        raise FormulaError("The formula is nested too deeply.") from None


def _read(formula: str, data_columns: list[str], weights: str | None) -> FormulaParts:
    """Parse a formula whose brackets may be nested too deeply."""
    if len(formula) > MAX_LENGTH:
        raise FormulaError(f"The formula has {len(formula)} characters; up to {MAX_LENGTH} are read.")
    _check_size(formula)
    left, right = _sides(formula)
    outcome = _outcome(left, data_columns)
    terms = _split(rewrite(right, data_columns), "+-")
    bars = [term for _, term in terms if _is_bar(term)]
    taken = {outcome, weights, *(name for term in bars for name in _groups_of(term, data_columns)[-1])}
    rest = [name for name in data_columns if name not in taken]
    fixed, splines, groups = [], [], []
    for sign, term in terms:
        is_spline = bool(re.match(r"s\s*\(", term)) and _closes_at_end(term)
        if sign == "-" and (term in bars or is_spline):
            raise FormulaError(f"{clipped(term)} can't be taken away: leave it out.")
        if term in bars:
            groups += _read_bar(term, data_columns, rest)
        elif is_spline:
            splines.append(_read_spline(term))
        elif term == ".":
            fixed += [(sign, name) for name in in_backticks(rest)]
        else:
            fixed.append((sign, expand_dot(term, rest)))
    fixed_text = " ".join(f"{sign} {term}" for sign, term in fixed).removeprefix("+ ") or "1"
    for text in (fixed_text, *(group.written for group in groups), *(one.expression for one in splines)):
        for name in re.findall(r"`([^`]*)`", text):
            check_name(name)
    for name in names_in(fixed_text):
        column_of(name, data_columns, f"each name in {clipped(fixed_text)}")
    used = _used(outcome, fixed_text, splines, groups, data_columns)
    return FormulaParts(" ".join(formula.split()), outcome, fixed_text, tuple(splines), tuple(groups), used)


def _sides(formula: str) -> tuple[str, str]:
    """The two sides of ~."""
    sides = [text for _, text in _split(formula, "~")]
    if len(sides) != 2:
        for sign in (":=", "<-", "="):
            if len(sides) == 1 and sign in formula:
                raise FormulaError(f"Write ~ in place of {sign} between the outcome and the rest: {clipped(formula)}.")
        raise FormulaError(
            f"A formula has one ~ between the outcome and the rest, as in 'y ~ x + z': {clipped(formula)} has "
            f"{len(sides) - 1}."
        )
    if not sides[1]:
        raise FormulaError(f"Nothing stands right of ~ in {clipped(formula)}: write y ~ 1 for an intercept alone.")
    return sides[0], sides[1]


def _outcome(left: str, data_columns: list[str]) -> str:
    """Column of the outcome."""
    try:
        return column_of(left, data_columns, "the outcome, left of ~,")
    except FormulaError as error:
        compared = re.match(r"(?:I\()?\s*(`[^`]+`|\w+)\s*(==|!=|[<>]=?)", left)
        if compared is None or compared[1].strip("`") in RESERVED:
            raise
        raise FormulaError(
            f"{error} To set one level against the rest write {compared[1]} ~ … and Model(…, positive=level); for "
            "other comparisons add a column to the data."
        ) from None


def _used(
    outcome: str, fixed: str, splines: Sequence[SplineTerm], groups: Sequence[GroupTerm], data_columns: list[str]
) -> tuple[str, ...]:
    """Check every part of a formula; return the columns that occur."""
    used = [outcome, *_check_allowed(fixed, data_columns)]
    for group in groups:
        used += [*_check_allowed(group.effects, data_columns), *group.columns]
    for spline in splines:
        used += _check_allowed(spline.expression, data_columns)
    for term in (written := [str(spline) for spline in splines]):
        if written.count(term) > 1:
            raise FormulaError(f"{term} occurs twice.")
    if outcome in used[1:]:
        raise FormulaError(f"The outcome {outcome!r} is also on the right of ~: remove it there.")
    return tuple(dict.fromkeys(used))


def check_safe(parts: FormulaParts) -> None:
    """Check parts of a formula from a file before they are evaluated."""
    columns = list(parts.columns)
    for text in (parts.fixed, *(group.effects for group in parts.groups), *(one.expression for one in parts.splines)):
        check_safe_text(text, columns)
    for spline in parts.splines:
        if _read_spline(f"s({spline.expression}, k={spline.size})") != spline:
            raise FormulaError(f"{spline} is not a spline.")
    for name in (parts.outcome, *(name for group in parts.groups for name in group.columns)):
        column_of(f"`{name}`", columns, "each outcome and group")
    if _used(parts.outcome, parts.fixed, parts.splines, parts.groups, columns) != parts.columns:
        raise FormulaError(f"The columns of {parts.text!r} are not those that it says.")


def check_safe_text(text: str, data_columns: list[str]) -> None:
    """Check a part of a formula from a file."""
    if not isinstance(text, str):
        raise FormulaError(f"{text!r} is not a part of a formula.")
    without_names = re.sub(r"`[^`]*`", "`_`", text)
    _check_size(without_names)
    for _ in _walk(without_names):
        pass
    rewrite(text)
    _check_allowed(text, data_columns)


def normal_form(term: str) -> str:
    """Normal form of a term for keys of priors: no blanks or backticks, sorted parts."""
    bare = _without_blanks(rewrite(term))
    if bare.startswith("(") and "||" not in bare and "|" in bare and _closes_at_end(bare):
        left, right = bare[1:-1].rsplit("|", 1)
        effects = "+".join(sorted(normal_form(str(part)) for part in parse_terms(expand_dot(left, ["._."]))))
        return f"({effects}|{':'.join(sorted(right.replace('`', '').split(':')))})"
    if re.match(r"s\(", bare) and _closes_at_end(bare):
        return _without_blanks(str(_read_spline(bare))).replace("`", "")
    return ":".join(sorted(text for _, text in _split(bare, ":"))).replace("`", "")


def _without_blanks(text: str) -> str:
    return "".join(char for _, char, depth in _walk(text) if depth >= QUOTED_DEPTH or not char.isspace())


def _check_size(formula: str) -> None:
    """Reject ambiguous text, and text that would take too long."""
    quote = ""
    for char in formula:
        if quote and char != quote and (char == "\\" or char in ("'\"" if quote == "`" else "`")):
            raise FormulaError(f"{char} may not stand within {quote}…{quote}: rename the column, or the level.")
        if char in "\"'`":
            quote = "" if char == quote else quote or char
    for power in re.findall(r"(?:\*\*|\^)\s*(\d+)", formula):
        if len(power) > 3 or int(power) > MAX_POWER:
            raise FormulaError(
                f"Powers go up to {MAX_POWER} in a formula; got {clipped(power)}. Add a column for more."
            )


def _walk(text: str) -> Iterator[tuple[int, str, int]]:
    """Yield position, character and nesting depth; quoted text is deeper than any bracket."""
    depth, quote = 0, ""
    for i, char in enumerate(text):
        if quote or char in "\"'`":
            yield i, char, QUOTED_DEPTH
            quote = "" if char == quote else quote or char
            continue
        depth -= char in _CLOSING
        if depth < 0:
            raise FormulaError(f"A bracket is closed that was never opened, in {clipped(text)}.")
        yield i, char, depth
        depth += char in _OPENING
        if depth > MAX_DEPTH:
            raise FormulaError(f"The formula is nested too deeply: more than {MAX_DEPTH} brackets are open at once.")
    if depth or quote:
        raise FormulaError(f"A {'quote' if quote else 'bracket'} is not closed in {clipped(text)}.")


def _split(text: str, separators: str) -> list[tuple[str, str]]:
    """Split a text at top-level separators; each part with the separator before it (+ for the first)."""
    parts, begin, before = [], 0, separators[0]
    for i, char, depth in _walk(text):
        if depth == 0 and char in separators:
            parts.append((before, text[begin:i].strip()))
            begin, before = i + 1, char
    parts.append((before, text[begin:].strip()))
    if "+" in separators:
        if not parts[0][1] and len(parts) > 1:
            parts = parts[1:]
        if any(not term for _, term in parts):
            raise FormulaError(f"A term is missing next to + or - in {clipped(text.strip())}.")
    return parts


def _closes_at_end(term: str) -> bool:
    """Whether the first bracket closes at the end."""
    return term.endswith(")") and [i for i, char, depth in _walk(term) if char == ")" and depth == 0] == [len(term) - 1]


def _is_bar(term: str) -> bool:
    """Whether a term is (effects | group); a bar elsewhere raises."""
    bars = [depth for _, char, depth in _walk(term) if char == "|" and depth < QUOTED_DEPTH]
    if not bars:
        return False
    if term.startswith("(") and _closes_at_end(term) and set(bars) == {1}:
        return True
    if not re.match(r"[^\W\d]\w*\s*\(", term):
        if 0 in bars:
            raise FormulaError(
                f"{clipped(term)} has a bar outside of brackets: write (effects | group), as in y ~ x + (1 | g)."
            )
        raise FormulaError(f"(effects | group) must stand alone, joined to the rest by +; {clipped(term)} is not.")
    return False


def _groups_of(term: str, data_columns: list[str]) -> list[tuple[str, ...]]:
    """Columns of each factor in (effects | group); a/b is a and a:b."""
    nested = [text for _, text in _split(_sides_of_bar(term)[1], "/")]
    chains = [[text for _, text in _split(step, ":")] for step in nested]
    names = [[column_of(name, data_columns, f"the group in {clipped(term)}") for name in chain] for chain in chains]
    levels = [tuple(name for chain in names[: i + 1] for name in chain) for i in range(len(names))]
    if len(set(levels[-1])) < len(levels[-1]):
        raise FormulaError(f"{clipped(term)} names a column twice.")
    return levels


def _sides_of_bar(term: str) -> tuple[str, str]:
    """Effects and groups of (effects | group)."""
    sides = [part for _, part in _split(term[1:-1].replace("||", "|"), "|")]
    if len(sides) != 2:
        raise FormulaError(f"{clipped(term)} has two bars: (1 | a) + (1 | b) crosses groups, (1 | a/b) nests them.")
    if not sides[0] or not sides[1]:
        raise FormulaError(
            f"{clipped(term)} needs effects left of the bar and a group right of it, such as (1 | group)."
        )
    return sides[0], sides[1]


def _read_bar(term: str, data_columns: list[str], rest: list[str]) -> list[GroupTerm]:
    """Parse (effects | group); with two bars each effect is its own term. ``rest`` are the columns of ``.``."""
    left = expand_dot(_sides_of_bar(term)[0], rest)
    effects = [re.sub(r"\s*\+\s*", " + ", " ".join(left.split()))]
    if "||" in term:
        effects = ["1" if str(effect) == "1" else f"0 + {effect}" for effect in parse_terms(left)]
    return [GroupTerm(effect, columns, term) for columns in _groups_of(term, data_columns) for effect in effects]


def _read_spline(term: str) -> SplineTerm:
    inner = [text for _, text in _split(term[term.index("(") + 1 : -1], ",")]
    size = SPLINE_SIZE
    for setting in inner[1:]:
        match = re.fullmatch(r"k\s*=\s*(\d+)", setting)
        if not match or len(match[1]) > 6 or not 4 <= int(match[1]) <= MAX_SETTING:
            raise FormulaError(f"{clipped(term)}: s(x) takes one setting, k from 4 to {MAX_SETTING}, as in s(x, k=20).")
        size = int(match[1])
    if not inner[0]:
        raise FormulaError(f"{clipped(term)} needs a column, as in s(age).")
    if not re.fullmatch(r"[^\W\d]\w*|`[^`]+`|[^\W\d]\w*\s*\(.*\)", inner[0]):
        raise FormulaError(f"{clipped(term)}: write I({inner[0]}) for arithmetic in a spline.")
    return SplineTerm(inner[0], size)


def _check_allowed(text: str, data_columns: list[str]) -> list[str]:
    """Raise for anything but columns, numbers and allowed functions; return the columns."""
    used = []
    for factor in (factor for term in parse_terms(text) for factor in term.factors):
        match factor.eval_method:
            case Factor.EvalMethod.LOOKUP:  # a column, whatever its name
                used.append(column_of(factor.expr, data_columns, f"each name in {clipped(text)}"))
            case Factor.EvalMethod.LITERAL:
                if not re.fullmatch(r"\d{1,15}(\.\d{0,15})?", factor.expr):
                    raise FormulaError(f"{clipped(factor.expr)} is not a number that may stand in a formula.")
            case _:
                columns = columns_of(factor.expr, data_columns)
                if not columns:
                    raise FormulaError(f"{clipped(factor.expr)} has no column in it: the intercept is the constant.")
                used += columns
    return used
