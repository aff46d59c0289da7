"""``functools.cached_property`` without its lock, which takes longer than many a sum in Python 3.11.

It also lets one thread at a time compute, whatever the object. Here nobody waits: a climb may compute a value that asks
for a pass over the data, which another climb has to join. Two threads may compute a value twice. Type checkers see a
property: so they can hold classes to an interface.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, final

__all__ = ["cached_property"]

if TYPE_CHECKING:
    cached_property = property
else:

    @final
    class cached_property:  # noqa: N801  (a decorator, named as in functools)
        """A property that is computed once, and kept among the object's own attributes."""

        def __init__(self, compute: Callable[[Any], Any]) -> None:
            self._compute, self.__doc__ = compute, compute.__doc__

        def __set_name__(self, owner: type, name: str) -> None:
            """Take note of the name under which the value is kept, which then hides this descriptor."""
            self._name = name

        def __get__(self, instance: Any, owner: type | None = None) -> Any:
            """Compute the value; the next time it is found before this is asked."""
            if instance is None:
                return self
            value = instance.__dict__[self._name] = self._compute(instance)
            return value
