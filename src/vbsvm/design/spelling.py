"""Names in errors: those that there are, and those that a user may have meant."""

from collections.abc import Iterable, Sequence
from difflib import get_close_matches


def meant(name: str, known: Iterable[object]) -> str:
    """A question after the known names that are spelled nearly as this one, with a blank before it; or nothing."""
    names = [str(one) for one in known]
    near = [one for one in names if one.lower() == name.lower()] or get_close_matches(name, names)
    return f" Did you mean {' or '.join(map(repr, near))}?" if near else ""


def listed(names: Sequence[object], most: int = 12) -> str:
    """The first names, and how many more there are."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(map(repr, names[:most])) + more
