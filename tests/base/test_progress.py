"""How far something is, told on stderr."""

import sys
from types import SimpleNamespace

import pytest

from saved_models import table
from vbsvm import VBSVC, Gibbs, Model, cross_validate
from vbsvm.base import printing
from vbsvm.base.printing import ProgressLine, bar, progress, track


def test_a_line_is_overwritten_as_a_whole(capsys):
    line = ProgressLine(verbose=True)
    for text in ("Pass 1: a long text", "Pass 2", "Pass 2"):
        line.show(text)
    line.end()
    line.end()
    assert capsys.readouterr().err == "\rPass 1: a long text\rPass 2             \n"
    ProgressLine(verbose=True).end()
    assert capsys.readouterr().err == ""


def shown_by(capsys, call):
    """What a call writes on stderr."""
    capsys.readouterr()
    call()
    return capsys.readouterr().err


def half(**settings):
    with bar("sweeps", 10, **settings) as tell:
        tell(5)


def test_a_bar_is_shown_where_somebody_looks_and_once_it_takes_long(capsys, monkeypatch):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    assert shown_by(capsys, half) == ""
    monkeypatch.setattr(printing, "SECONDS_BEFORE", 0.0)
    assert "sweeps" in shown_by(capsys, half)
    assert shown_by(capsys, lambda: half(verbose=False)) == ""
    monkeypatch.setattr(sys.stderr, "isatty", lambda: False)
    assert shown_by(capsys, half) == ""
    assert "sweeps" in shown_by(capsys, lambda: half(verbose=True))


def test_a_part_of_a_task_is_shown_as_the_task_is(capsys):
    def nested(outer, inner):
        with progress(outer), progress(inner):
            half()

    assert "sweeps" in shown_by(capsys, lambda: nested(1, None))
    assert "sweeps" in shown_by(capsys, lambda: nested(0, 1))
    assert shown_by(capsys, lambda: nested(1, 0)) == ""
    assert shown_by(capsys, lambda: nested(None, None)) == ""
    assert shown_by(capsys, half) == ""  # nothing is left of a task that has ended


def test_the_delay_is_that_of_the_whole_task(capsys, monkeypatch):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    now = [0.0]
    monkeypatch.setattr(printing.time, "monotonic", lambda: now[0])

    def three_parts():
        with progress():
            for _ in range(3):
                line = ProgressLine()
                line.show(f"at {now[0]:g} s")
                line.end()
                now[0] += 3.0

    assert [line.strip() for line in shown_by(capsys, three_parts).splitlines() if line.strip()] == ["at 6 s"]


def test_a_track_counts_and_ends_with_what_breaks_it_off(capsys, monkeypatch):
    monkeypatch.setattr(printing, "find_spec", lambda package: None)
    with progress(1):
        assert list(track("folds", ["a", "b"])) == ["a", "b"]
        assert "folds: 50 %" in capsys.readouterr().err
        items = track("folds", range(4))
        next(items), next(items)
        items.close()
    assert capsys.readouterr().err.endswith("\n")
    assert list(track("folds", [])) == []


@pytest.mark.parametrize("verbose", ["yes", 1.5])
def test_verbose_is_whole(verbose):
    with pytest.raises(ValueError, match="verbose must be None, True, False, or a whole number"):
        VBSVC(verbose=verbose).fit([[0.0], [1.0]], [0, 1])


def fits():
    """Everything that takes long, as functions of ``verbose``, with what its progress says."""
    frame, gibbs = table(), Gibbs(draws=20, tune=20, chains=2)
    model = Model("y ~ a + b", frame)
    lacking = frame.assign(b=frame["b"].where(frame["b"] < 1.0))
    return {
        "variational": ("Pass ", lambda verbose: VBSVC(verbose=verbose).fit(frame[["a", "b"]], frame["y"])),
        "model": ("Pass ", lambda verbose: model.fit(verbose=verbose)),
        "gibbs": ("sweeps of 2 chains", lambda verbose: model.fit(gibbs, random_state=0, verbose=verbose)),
        "folds": ("folds", lambda verbose: cross_validate(model, 3, verbose=verbose)),
        "predictors": (
            "distribution of the predictors",
            lambda verbose: Model("y ~ a + b", lacking).fit(verbose=verbose),
        ),
    }


@pytest.mark.filterwarnings("ignore:.*chains have not")
@pytest.mark.parametrize("name", list(fits()))
def test_verbose_shows_progress_anywhere_and_only_then(name, capsys, monkeypatch):
    monkeypatch.setattr(printing, "find_spec", lambda package: None)
    text, fit = fits()[name]
    assert shown_by(capsys, lambda: fit(None)) == ""
    said = shown_by(capsys, lambda: fit(True))
    assert text in said
    assert name != "folds" or "Pass" not in said  # that of a fold would be of no use
    assert shown_by(capsys, lambda: fit(False)) == ""


def test_imputations_and_refits_show_progress(capsys, monkeypatch):
    monkeypatch.setattr(printing, "find_spec", lambda package: None)
    frame = table().assign(b=lambda frame: frame["b"].where(frame["b"] < 1.0))
    fit = Model("y ~ a + b", frame).fit()
    with progress(1):
        said = shown_by(capsys, lambda: fit.impute(frame, 2, random_state=0))
        assert "imputations: " in said
        assert "imputed tables: 100 %" in said
        complete = Model("y ~ a", frame).fit()
        assert "refits: " in shown_by(capsys, lambda: complete.left_out_predictions(refits=len(frame)))


@pytest.mark.parametrize("lacking", ["ipywidgets", "rich"])
def test_a_notebook_that_can_not_draw_bars_has_a_line(capsys, monkeypatch, lacking):
    shell = SimpleNamespace(kernel=object())
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: shell))
    monkeypatch.setattr(printing, "find_spec", lambda package: None if package == lacking else package)
    assert printing.in_notebook()
    with bar("sweeps", 10, verbose=True) as tell:
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
