"""Names that a user may have meant."""

from collections.abc import Iterable
from difflib import get_close_matches


def meant(name: str, known: Iterable[object]) -> str:
    """A question after the known names that are spelled nearly as this one, with a blank before it; or nothing."""
    names = [str(one) for one in known]
    near = [one for one in names if one.lower() == name.lower()] or get_close_matches(name, names)
    return f" Did you mean {' or '.join(map(repr, near))}?" if near else ""
