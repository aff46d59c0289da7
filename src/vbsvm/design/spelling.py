"""Names and rows in errors: names that there are, and that a user may have meant; rows by their numbers in a file."""

import re
from collections.abc import Callable, Iterable, Sequence
from difflib import get_close_matches
from unicodedata import is_normalized, normalize

# Rows as messages number them: "row 3", "rows 3 and 5", "rows 3, 5 and 8 more".
ROWS = re.compile(r"(?<!['\"`])\brows? \d+\b(?:, \d+\b)*(?: and \d+\b(?! more))?")


def renumbered(message: str, number: Callable[[int], int]) -> str:
    """The message with other numbers of rows."""

    def of_rows(found: re.Match[str]) -> str:
        return re.sub(r"\d+", lambda one: str(number(int(one[0]))), found[0])

    return ROWS.sub(of_rows, message)


def meant(name: str, known: Iterable[object]) -> str:
    """A question after the known names that are spelled nearly as this one, with a blank before it; or nothing."""
    names = [str(one) for one in known]
    if same := other_form(name, names):
        return f" {same}"
    near = [one for one in names if one.lower() == name.lower()] or get_close_matches(name, names)
    return f" Did you mean {' or '.join(map(repr, near))}?" if near else ""


def other_form(name: str, names: Iterable[str]) -> str:
    """A hint at a name that differs from this one in its Unicode form only; or nothing."""
    for one in names:
        if one != name and normalize("NFC", one) == normalize("NFC", name):
            form = "composed (NFC)" if is_normalized("NFC", one) else "decomposed (NFD)"
            return f"{one!r} looks the same, but its letters are {form}: write both names in one Unicode form."
    return ""


def listed(names: Sequence[object], most: int = 12) -> str:
    """The first names, and how many more there are."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(map(repr, names[:most])) + more
