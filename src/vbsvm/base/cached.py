"""A property that is computed once, which type checkers see as a property: so they can hold classes to an interface.

``functools.cached_property`` of Python 3.11 lets one thread at a time compute, whatever the object. Here nobody waits:
a climb may compute one that asks for a pass over the data, which another climb's has to join.
"""

from typing import TYPE_CHECKING, Any

__all__ = ["cached_property"]

if TYPE_CHECKING:
    cached_property = property
else:

    class cached_property:  # noqa: N801  (a decorator, named as in functools)
        """Compute the value when it is first asked for, and keep it in the object's dictionary."""

        def __init__(self, compute: Any) -> None:
            self._compute = compute
            self.__doc__ = compute.__doc__

        def __set_name__(self, owner: type, name: str) -> None:
            """Take note of the name under which the value is kept, which then hides this descriptor."""
            self._name = name

        def __get__(self, instance: Any, owner: type | None = None) -> Any:
            """The value, at first access."""
            if instance is None:
                return self
            value = instance.__dict__[self._name] = self._compute(instance)
            return value
