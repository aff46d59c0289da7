"""What fits write to the log: nothing on their own, and each end where it is asked for."""

import logging
import subprocess
import sys

import numpy as np
import pytest

from vbsvm import VBSVC, Gibbs
from vbsvm.base import printing

X = np.random.default_rng(0).normal(size=(60, 2))
Y = X[:, 0] + np.random.default_rng(1).normal(size=60) > 0


def test_ends_of_climbs_are_told_and_their_steps_to_those_who_ask(caplog):
    with caplog.at_level(logging.INFO, "vbsvm"):
        clf = VBSVC().fit(X, Y)
    assert [record.getMessage() for record in caplog.records] == [
        f"optimisation ended: {clf.n_iter_} passes, bound {clf.elbo_:.6f}, converged"
    ]
    caplog.clear()
    with caplog.at_level(logging.DEBUG, "vbsvm"):
        VBSVC().fit(X, Y)
    steps = [record for record in caplog.records if record.levelno == logging.DEBUG]
    assert len(steps) >= 3
    assert steps[-1].getMessage().startswith("pass ")


def test_chains_tell_their_sweeps(caplog):
    with caplog.at_level(logging.DEBUG, "vbsvm"), pytest.warns(UserWarning, match="chains have not converged"):
        VBSVC(inference=Gibbs(draws=30, tune=10, chains=1), random_state=0).fit(X, Y)
    told = [record.getMessage() for record in caplog.records if record.name == "vbsvm"]
    assert "40 of 40 sweeps" in told
    assert told[-1] == "chains ended after 40 sweeps"


def test_nobody_is_bothered_who_did_not_ask():
    code = "import numpy as np; from vbsvm import VBSVC; VBSVC().fit(np.arange(8.0)[:, None], [0, 1] * 4)"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout == ran.stderr == ""


def test_long_fits_in_memory_show_how_far_they_are_where_somebody_looks(monkeypatch, capsys):
    VBSVC().fit(X, Y)
    assert capsys.readouterr().err == ""
    monkeypatch.setattr(printing, "is_interactive", lambda: True)
    VBSVC().fit(X, Y)
    assert capsys.readouterr().err == ""
    monkeypatch.setattr(printing, "SECONDS_BEFORE", 0.0)
    VBSVC(verbose=0).fit(X, Y)
    assert capsys.readouterr().err == ""
    VBSVC().fit(X, Y)
    shown = capsys.readouterr().err
    assert "Pass 2: bound -" in shown
    assert shown.endswith("\n")
