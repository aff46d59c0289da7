"""How far something is, told on stderr."""

from itertools import pairwise

from vbsvm.base.progress import SharedLine


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
