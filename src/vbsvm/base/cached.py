"""``functools.cached_property`` without its class-wide lock, which in Python 3.11 is slow and could deadlock.

No thread waits: computing a value may need a pass over the data that another thread has to join. Two threads may
compute a value twice, with the same result. Expensive values are a ``locked_cached_property``: the first thread
computes it, and others wait for that one object. Type checkers see a property, so that
classes can be checked against an interface.

``new_lock`` gives locks that are released in a forked process where other threads held them: those threads do not exist
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
            """Store the name of the instance attribute that caches the value and then shadows this descriptor."""
            self._name = name
            if owner.__getstate__ is object.__getstate__:
                owner.__getstate__ = _attributes

        def __get__(self, instance: Any, owner: type | None = None) -> Any:
            """Compute the value and cache it as an instance attribute, which is found first from then on."""
            if instance is None:
                return self
            value = instance.__dict__[self._name] = self._compute(instance)
            return value

    @final
    class locked_cached_property(cached_property):  # noqa: N801
        """A cached property of an object with a ``lock``, which is held while the value is computed."""

        def __get__(self, instance: Any, owner: type | None = None) -> Any:
            """Compute the value, or wait for the thread that does."""
            if instance is None:
                return self
            with instance.lock:
                cached = self._name in instance.__dict__
                return instance.__dict__[self._name] if cached else super().__get__(instance, owner)

    def _attributes(instance: Any) -> dict[str, Any]:
        """State for copies and pickles: a snapshot of the attributes, as other threads may add some meanwhile."""
        return dict(instance.__dict__)


_LOCKS: "WeakSet[Any]" = WeakSet()


def new_lock() -> AbstractContextManager[bool]:
    """Re-entrant lock, reset after a fork. It is Python's own: Ctrl-C could leave one written in Python locked."""
    lock = threading.RLock()
    _LOCKS.add(lock)
    return lock


def _reset_after_fork() -> None:
    """Release all locks but those held by the thread that has forked."""
    for lock in list(_LOCKS):
        if lock.acquire(blocking=False):
            lock.release()
        else:
            lock._at_fork_reinit()


_register: Any = getattr(os, "register_at_fork", None)  # not on Windows
if _register is not None:
    _register(after_in_child=_reset_after_fork)
