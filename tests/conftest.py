"""What all tests share."""

import signal

import pytest


@pytest.fixture(scope="session", autouse=True)
def ctrl_c():
    """A shell starts what runs in the background with Ctrl-C ignored: tests of Ctrl-C would then wait for ever."""
    if signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.default_int_handler)
