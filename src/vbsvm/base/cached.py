"""``functools.cached_property`` without its lock, which takes longer than many a sum in Python 3.11.

It also lets one thread at a time compute, whatever the object. Here nobody waits: a climb may compute a value that asks
for a pass over the data, which another climb has to join. Two threads may compute a value twice, and find the same one.
What takes long is a ``locked_cached_property``: the first thread computes it, and others wait for that one object.
Type checkers see a property: so they can hold classes to an interface.

``new_lock`` gives locks that a forked process finds open where another thread held them: that thread does not exist
there.
"""

import os
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, final
from weakref import WeakSet

__all__ = ["cached_property", "locked_cached_property", "new_lock"]

if TYPE_CHECKING:
    cached_property = locked_cached_property = property
else:

    class cached_property:  # noqa: N801  (a decorator, named as in functools)
        """A property that is computed once, and kept among the object's own attributes."""

        def __init__(self, compute: Callable[[Any], Any]) -> None:
            self._compute, self.__doc__ = compute, compute.__doc__

        def __set_name__(self, owner: type, name: str) -> None:
            """Take note of the name under which the value is kept, which then hides this descriptor."""
            self._name = name
            if owner.__getstate__ is object.__getstate__:
                owner.__getstate__ = _attributes

        def __get__(self, instance: Any, owner: type | None = None) -> Any:
            """Compute the value; the next time it is found before this is asked."""
            if instance is None:
                return self
            value = instance.__dict__[self._name] = self._compute(instance)
            return value

    @final
    class locked_cached_property(cached_property):  # noqa: N801
        """The same of an object that has a ``lock``, which is held while the value is learned."""

        def __get__(self, instance: Any, owner: type | None = None) -> Any:
            """Learn the value, or wait for the thread that does."""
            if instance is None:
                return self
            with instance.lock:
                known = self._name in instance.__dict__
                return instance.__dict__[self._name] if known else super().__get__(instance, owner)

    def _attributes(instance: Any) -> dict[str, Any]:
        """What copies and pickles take: the attributes of this moment, as other threads may go on to add some."""
        return dict(instance.__dict__)


_LOCKS: "WeakSet[Any]" = WeakSet()


def new_lock() -> AbstractContextManager[bool]:
    """A re-entrant lock. It is Python's own: Ctrl-C could leave one locked whose methods are written in Python."""
    lock = threading.RLock()
    _LOCKS.add(lock)
    return lock


def _open_all() -> None:
    """Open all locks, but those that are held by the thread that has forked."""
    for lock in list(_LOCKS):
        if lock.acquire(blocking=False):
            lock.release()
        else:
            lock._at_fork_reinit()


_register: Any = getattr(os, "register_at_fork", None)  # not on Windows
if _register is not None:
    _register(after_in_child=_open_all)
