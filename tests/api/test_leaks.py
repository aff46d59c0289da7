"""Processes that fit and predict for days: memory and open files do not grow."""

from pathlib import Path

import pytest

import leaks

pytestmark = pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="needs /proc")


@pytest.mark.parametrize("name", leaks.CALLS)
def test_no_file_stays_open(name):
    assert leaks.growth(name, 10)[2] == 0


def test_a_file_that_stays_open_would_be_seen(monkeypatch):
    held = []
    monkeypatch.setitem(leaks.CALLS, "leak", (lambda: held.append(open("/dev/null")), 1.0))  # noqa: SIM115, PTH123
    assert leaks.growth("leak", 10)[2] == 5
    for one in held:
        one.close()


@pytest.mark.long
@pytest.mark.parametrize("name", leaks.CALLS)
def test_memory_does_not_grow(name):
    """A kilobyte a call would be one small array that is kept."""
    _, per_call, files = leaks.growth(name, 2000)
    assert per_call < 500
    assert files == 0
