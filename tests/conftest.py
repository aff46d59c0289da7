"""What all tests share."""

import signal
from importlib.util import find_spec

import numpy as np
import pytest

OPTIONAL = ("arviz", "dask", "distributed", "jinja2", "matplotlib", "polars", "pyarrow")
MISSING = [name for name in OPTIONAL if find_spec(name) is None]


@pytest.fixture(scope="session", autouse=True)
def ctrl_c():
    """A shell starts what runs in the background with Ctrl-C ignored: tests of Ctrl-C would then wait for ever."""
    if signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True)
def seeded():
    """Samplers without a ``random_state`` begin from NumPy's global one: a test draws the same each time."""
    np.random.seed(0)  # noqa: NPY002


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call():
    """A test that comes to use an optional package that is not installed is skipped."""
    try:
        return (yield)
    except ImportError as error:
        if any(name in str(error).lower() for name in MISSING):
            pytest.skip(str(error))
        raise


pytest_runtest_setup = pytest_runtest_call  # fixtures use them too
