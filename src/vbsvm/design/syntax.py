"""Read a formula: split it into its parts, and refuse what may not stand in it before anything is evaluated.

``outcome ~ fixed + s(x) + (effects | group)``. The fixed part and the effects are left to formulaic, which evaluates
Python; so every factor in them first goes through ``design.guard``. A formula can't run code.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import final

from formulaic import Formula
from formulaic.errors import FormulaicError
from formulaic.formula import SimpleFormula
from formulaic.parser.types import Factor

from vbsvm.design.guard import LARGEST_SETTING, FormulaError, column_of, columns_of

# A sum to the power of forty is a typing error, or worse.
LARGEST_POWER = 5
MOST_PRODUCTS = 12
LONGEST = 20_000
QUOTED = 10**6
SPLINE_SIZE = 20

_OPENING, _CLOSING = "([{", ")]}"


@final
@dataclass(frozen=True, slots=True)
class GroupTerm:
    """``(effects | columns)``: effects that vary together over the groups. ``written`` is the term as it was given."""

    effects: str
    columns: tuple[str, ...]
    written: str

    def __str__(self) -> str:
        """The term in its normal form; the key of its prior."""
        return f"({self.effects} | {':'.join(self.columns)})"


@final
@dataclass(frozen=True, slots=True)
class SplineTerm:
    """``s(x, k=20)``: a smooth curve."""

    expression: str
    size: int

    def __str__(self) -> str:
        """The term in its normal form; the key of its prior."""
        return f"s({self.expression})" if self.size == SPLINE_SIZE else f"s({self.expression}, k={self.size})"


@final
@dataclass(frozen=True, slots=True)
class Parts:
    """A formula, read."""

    text: str
    outcome: str
    fixed: str
    splines: tuple[SplineTerm, ...]
    groups: tuple[GroupTerm, ...]
    columns: tuple[str, ...]

    @property
    def inputs(self) -> frozenset[str]:
        """Columns that are neither the outcome nor groups: they may miss values."""
        groups = {name for term in self.groups for name in term.columns}
        return frozenset(self.columns) - groups - {self.outcome}


def read(formula: str, data_columns: list[str], weights: str | None = None) -> Parts:
    """Split a formula into its parts and check every one of them against the columns and the list.

    ``weights`` is a column that ``.`` does not stand for.
    """
    if not isinstance(formula, str):
        raise TypeError(f"The formula must be text such as 'y ~ x + (1 | g)'; got {formula!r}.")
    try:
        return _read(formula, data_columns, weights)
    except RecursionError:
        raise FormulaError("The formula is nested too deeply.") from None


def _read(formula: str, data_columns: list[str], weights: str | None) -> Parts:
    if len(formula) > LONGEST:
        raise FormulaError(f"The formula has {len(formula)} characters; up to {LONGEST} are read.")
    _require_moderate(formula)
    sides = _split(formula, "~")
    if len(sides) != 2:
        raise FormulaError(f"A formula has one ~ between the outcome and the rest: {formula!r} has {len(sides) - 1}.")
    outcome = column_of(sides[0][1], data_columns, "the outcome, left of ~,")
    fixed, splines, groups = [], [], []
    for sign, term in _split(sides[1][1], "+-"):
        if _is_bar(term):
            _require_plus(sign, term)
            groups += _read_bar(term, data_columns)
        elif re.match(r"s\s*\(", term) and _closes_at_end(term):
            _require_plus(sign, term)
            splines.append(_read_spline(term))
        else:
            fixed.append((sign, term))
    taken = {outcome, weights, *(name for group in groups for name in group.columns)}
    fixed = _expand_dot(fixed, data_columns, taken)
    fixed_text = " ".join(f"{sign} {term}" for sign, term in fixed).removeprefix("+ ")
    fixed_text = fixed_text or "1"
    for text in (fixed_text, *(group.written for group in groups), *(one.expression for one in splines)):
        for name in re.findall(r"`([^`]*)`", text):
            _require_name(name)
    used = _used(outcome, fixed_text, splines, groups, data_columns)
    return Parts(" ".join(formula.split()), outcome, fixed_text, tuple(splines), tuple(groups), used)


def _used(
    outcome: str, fixed: str, splines: Sequence[SplineTerm], groups: Sequence[GroupTerm], data_columns: list[str]
) -> tuple[str, ...]:
    """Check every part of a formula against the columns and the list; give the columns that occur."""
    used = [outcome, *_require_allowed(fixed, data_columns)]
    for group in groups:
        used += [*_require_allowed(group.effects, data_columns), *group.columns]
    for spline in splines:
        used += _require_allowed(spline.expression, data_columns)
    _require_once([str(spline) for spline in splines])
    if outcome in used[1:]:
        raise FormulaError(f"The outcome {outcome!r} also stands on the right of ~.")
    return tuple(dict.fromkeys(used))


def require_safe(parts: Parts) -> None:
    """Refuse parts that no formula gives: what comes from a file goes through here before it is evaluated."""
    columns = list(parts.columns)
    for text in (parts.fixed, *(group.effects for group in parts.groups), *(one.expression for one in parts.splines)):
        require_safe_text(text, columns)
    for spline in parts.splines:
        if _read_spline(f"s({spline.expression}, k={spline.size})") != spline:
            raise FormulaError(f"{spline} is not a spline.")
    for name in (parts.outcome, *(name for group in parts.groups for name in group.columns)):
        column_of(f"`{name}`", columns, "each outcome and group")
    if _used(parts.outcome, parts.fixed, parts.splines, parts.groups, columns) != parts.columns:
        raise FormulaError(f"The columns of {parts.text!r} are not those that it says.")


def require_safe_text(text: str, data_columns: list[str]) -> None:
    """The same for a part of a formula. What stands in backticks is a name, and may hold any sign."""
    if not isinstance(text, str):
        raise FormulaError(f"{text!r} is not a part of a formula.")
    _require_moderate(re.sub(r"`[^`]*`", "`_`", text))
    _require_allowed(text, data_columns)


def normal_form(term: str) -> str:
    """A term as priors' keys are compared: without blanks or backticks, its parts in the order of the alphabet."""
    bare = _without_blanks(term)
    if bare.startswith("(") and "||" not in bare and "|" in bare and _closes_at_end(bare):
        left, right = bare[1:-1].rsplit("|", 1)
        effects = "+".join(sorted(normal_form(str(one)) for one in _parsed(left)))
        return f"({effects}|{':'.join(sorted(right.replace('`', '').split(':')))})"
    if re.match(r"s\(", bare) and _closes_at_end(bare):
        return _without_blanks(str(_read_spline(bare))).replace("`", "")
    return ":".join(sorted(text for _, text in _split(bare, ":"))).replace("`", "")


def _without_blanks(text: str) -> str:
    return "".join(char for _, char, depth in _walk(text) if depth >= QUOTED or not char.isspace())


def _require_moderate(formula: str) -> None:
    """Refuse what two readers could read in two ways, or what would take forever."""
    quote = ""
    for char in formula:
        if quote and char != quote and (char == "\\" or char in ("'\"" if quote == "`" else "`")):
            raise FormulaError(f"{char} may not stand within {quote}…{quote}: rename the column, or the level.")
        if char in "\"'`":
            quote = "" if char == quote else quote or char
    for power in re.findall(r"(?:\*\*|\^)\s*(\d+)", formula):
        if int(power) > LARGEST_POWER:
            raise FormulaError(f"Powers go up to {LARGEST_POWER} in a formula; got {power}. Add a column for more.")
    if formula.replace("**", "").count("*") + formula.count("/") > MOST_PRODUCTS:
        raise FormulaError(f"More than {MOST_PRODUCTS} products would make too many interactions: write them as a:b.")


def _walk(text: str) -> Iterator[tuple[int, str, int]]:
    """Yield place, character and depth of nesting; what stands in quotes or backticks is deeper than any bracket."""
    depth, quote = 0, ""
    for i, char in enumerate(text):
        if quote:
            yield i, char, QUOTED
            quote = "" if char == quote else quote
            continue
        if char in "\"'`":
            quote = char
            yield i, char, QUOTED
            continue
        depth -= char in _CLOSING
        if depth < 0:
            raise FormulaError(f"A bracket is closed that was never opened, in {text!r}.")
        yield i, char, depth
        depth += char in _OPENING
    if depth or quote:
        raise FormulaError(f"A {'quote' if quote else 'bracket'} is not closed in {text!r}.")


def _split(text: str, separators: str) -> list[tuple[str, str]]:
    """Parts of a text between separators outside of brackets, each with the separator before it (+ for the first)."""
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
            raise FormulaError(f"A term is missing beside + or - in {text.strip()!r}.")
    return parts


def _closes_at_end(term: str) -> bool:
    """Whether the bracket that opens first closes at the very end."""
    return term.endswith(")") and [i for i, char, depth in _walk(term) if char == ")" and depth == 0] == [len(term) - 1]


def _is_bar(term: str) -> bool:
    """Whether a term is (effects | group); a bar anywhere else is refused."""
    bars = [depth for _, char, depth in _walk(term) if char == "|" and depth < QUOTED]
    if not bars:
        return False
    if term.startswith("(") and _closes_at_end(term) and set(bars) == {1}:
        return True
    if not re.match(r"[^\W\d]\w*\s*\(", term):
        raise FormulaError(f"(effects | group) must stand alone, joined to the rest by +; {term!r} is not.")
    return False


def _require_plus(sign: str, term: str) -> None:
    if sign == "-":
        raise FormulaError(f"{term!r} can't be taken away: leave it out.")


def _read_bar(term: str, data_columns: list[str]) -> list[GroupTerm]:
    """(effects | group); a/b is a and a:b, and with two bars each effect is a term of its own."""
    sides = [part for _, part in _split(term[1:-1].replace("||", "|"), "|")]
    if len(sides) != 2:
        raise FormulaError(f"{term!r} has two bars: (1 | a) + (1 | b) crosses groups, (1 | a/b) nests them.")
    left, right = sides
    if not left or not right:
        raise FormulaError(f"{term!r} needs effects left of the bar and a group right of it, such as (1 | group).")
    nested = [text for _, text in _split(right, "/")]
    chains = [[text for _, text in _split(step, ":")] for step in nested]
    names = [[column_of(name, data_columns, f"the group in {term!r}") for name in chain] for chain in chains]
    levels = [tuple(name for chain in names[: i + 1] for name in chain) for i in range(len(names))]
    for columns in levels:
        if len(set(columns)) < len(columns):
            raise FormulaError(f"{term!r} names a column twice.")
    effects = [re.sub(r"\s*\+\s*", " + ", " ".join(left.split()))]
    if "||" in term:
        effects = ["1" if str(one) == "1" else f"0 + {one}" for one in _parsed(left)]
    return [GroupTerm(of_term, columns, term) for columns in levels for of_term in effects]


def _read_spline(term: str) -> SplineTerm:
    inner = [text for _, text in _split(term[term.index("(") + 1 : -1], ",")]
    size = SPLINE_SIZE
    for setting in inner[1:]:
        found = re.fullmatch(r"k\s*=\s*(\d+)", setting)
        if not found or not 4 <= int(found[1]) <= LARGEST_SETTING:
            raise FormulaError(f"{term!r}: s(x) takes one setting, k from 4 to {LARGEST_SETTING}, as in s(x, k=20).")
        size = int(found[1])
    if not inner[0]:
        raise FormulaError(f"{term!r} needs a column, as in s(age).")
    if not re.fullmatch(r"[^\W\d]\w*|`[^`]+`|[^\W\d]\w*\s*\(.*\)", inner[0]):
        raise FormulaError(f"{term!r}: write I({inner[0]}) for arithmetic in a spline.")
    return SplineTerm(inner[0], size)


def _expand_dot(fixed: list[tuple[str, str]], data_columns: list[str], taken: set[str | None]) -> list[tuple[str, str]]:
    """Replace . by all columns that are neither the outcome nor a group."""
    expanded = []
    for sign, term in fixed:
        names = [name for name in data_columns if name not in taken] if term == "." else []
        for name in names:
            if not isinstance(name, str):
                raise FormulaError(f"The column {name!r} has no text as its name, so . can't stand for it: rename it.")
            _require_name(name)
        expanded += [(sign, f"`{name}`") for name in names] if term == "." else [(sign, term)]
    return expanded


def _require_name(name: str) -> None:
    """Refuse names that formulaic takes for signs of its own in spite of their backticks, and quotes without a mate."""
    if name in ("1", ".", "~", "") or "`" in name or name[-1] == "\\" or any(name.count(quote) % 2 for quote in "'\""):
        raise FormulaError(f"A column called {name!r} can't stand in a formula, which would misread it: rename it.")


def _require_once(terms: list[str]) -> None:
    for term in terms:
        if terms.count(term) > 1:
            raise FormulaError(f"{term} occurs twice.")


def _require_allowed(text: str, data_columns: list[str]) -> list[str]:
    """Refuse a formula in which anything but columns, numbers and listed functions occurs; give the columns."""
    used = []
    for factor in (factor for term in _parsed(text) for factor in term.factors):
        # What formulaic only looks up is a column, whatever its name; all else it would evaluate.
        looked_up = factor.eval_method is Factor.EvalMethod.LOOKUP
        used += (
            [column_of(factor.expr, data_columns, f"each name in {text!r}")]
            if looked_up
            else columns_of(factor.expr, data_columns)
        )
    return used


def _parsed(text: str) -> SimpleFormula:
    """Terms of a formula without ~; nothing is evaluated."""
    try:
        parsed = Formula.from_spec(text)
    except (FormulaicError, SyntaxError) as error:
        raise FormulaError(f"{text!r} can't be read: {str(error).splitlines()[0]}") from error
    if not isinstance(parsed, SimpleFormula):
        raise FormulaError(f"{text!r} has several parts; one is expected.")
    return parsed
