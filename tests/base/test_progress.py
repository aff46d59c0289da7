"""How far something is, told on stderr."""

import sys
from itertools import pairwise
from types import SimpleNamespace

import pytest

from vbsvm.base import printing
from vbsvm.base.printing import SharedLine, bar


def test_several_share_a_line(capsys):
    line = SharedLine()
    line.show("a", "Pass 1: a long text")
    line.show("b", "Pass 1")
    line.show("a", "Pass 2")
    line.end("a")
    line.show("b", "Pass 2")
    line.end("b")
    line.end("b")
    told = capsys.readouterr().err
    assert told.count("\n") == 1
    assert told.endswith("\n")
    shown = told.rstrip("\n").split("\r")[1:]
    assert [text.rstrip() for text in shown] == [
        "Pass 1: a long text",
        "Pass 1: a long text (and 1 more under way)",
        "Pass 2 (and 1 more under way)",
        "Pass 1",
        "Pass 2",
    ]
    for before, after in pairwise(shown):
        assert len(after) >= len(before.rstrip())  # nothing of it is left on the screen


def test_nothing_is_written_where_nothing_was_shown(capsys):
    SharedLine().end("a")
    assert capsys.readouterr().err == ""


def test_a_bar_is_shown_where_somebody_looks(capsys, monkeypatch):
    with bar("sweeps", 10) as tell:
        tell(5)
    assert capsys.readouterr().err == ""
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    with bar("sweeps", 10) as tell:
        tell(5)
    assert "sweeps" in capsys.readouterr().err
    with bar("sweeps", 10, shown=False) as tell:
        tell(5)
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("lacking", ["ipywidgets", "rich"])
def test_a_notebook_that_can_not_draw_bars_has_a_line(capsys, monkeypatch, lacking):
    shell = SimpleNamespace(kernel=object())
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: shell))
    monkeypatch.setattr(printing, "find_spec", lambda package: None if package == lacking else package)
    assert printing.in_notebook()
    with bar("sweeps", 10) as tell:
        tell(5)
        tell(10)
    told = capsys.readouterr().err
    assert "sweeps: 50 %, 0 s left" in told
    assert told.endswith("sweeps: 100 %, 0 s left\n")


def test_a_terminal_is_no_notebook(monkeypatch):
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: SimpleNamespace()))
    assert not printing.in_notebook()
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: None))
    assert not printing.in_notebook()
