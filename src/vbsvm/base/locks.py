"""Locks that a forked process finds open where another thread held them: that thread does not exist there."""

import os
import threading
from contextlib import AbstractContextManager
from typing import Any
from weakref import WeakSet

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
