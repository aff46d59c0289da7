"""``functools.cached_property``, which type checkers see as a property: so they can hold classes to an interface."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    cached_property = property
else:
    from functools import cached_property

__all__ = ["cached_property"]
