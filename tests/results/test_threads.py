"""Threads that ask one fit at once, or fit at once, get what one thread alone would have got."""

import copy
import pickle
import sys
import threading
import warnings
from pathlib import Path

import numpy as np
import pytest

import asked_at_once
import vbsvm
from asked_at_once import KINDS, N_THREADS, QUESTIONS, REPORT, SAVED, alike, answer, at_once, differences, plain
from vbsvm import VBSVC, Files, LaplaceZero, Ridge, VBLogistic


@pytest.mark.parametrize("kind", KINDS)
def test_threads_get_the_answers_of_one(kind):
    assert differences(kind) == []


@pytest.mark.long
@pytest.mark.parametrize("kind", KINDS)
def test_threads_always_get_the_answers_of_one(kind):
    assert differences(kind, repeats=25) == []


@pytest.mark.parametrize("kind", KINDS)
def test_files_that_are_saved_at_once_are_the_same(kind):
    """As each other and as one that is saved later; another fit may differ by rounding."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model, rows = KINDS[kind]()
        found = at_once([lambda: answer(SAVED["contents"], model, rows)] * N_THREADS)
        later = answer(SAVED["contents"], model, rows)
    assert all(alike(one, later) for one in found)


@pytest.mark.parametrize("kind", ["svm", *(pytest.param(one, marks=pytest.mark.long) for one in KINDS if one != "svm")])
def test_reports_that_are_written_at_once_are_the_same(kind):
    assert differences(kind, REPORT) == []


def test_what_is_learned_is_learned_by_one_thread(monkeypatch):
    model, _ = KINDS["svm"]()
    calls, learn = [], type(model.fit_[0]._rows)._compute_covariance

    def counted(rows, kind):
        calls.append(kind)
        return learn(rows, kind)

    monkeypatch.setattr(type(model.fit_[0]._rows), "_compute_covariance", counted)
    at_once([model.fit_[0].summary] * N_THREADS)
    assert calls == ["robust"]


def test_predictions_do_not_wait_for_what_another_thread_learns():
    model, rows = KINDS["svm"]()
    expected = model.predict_proba(rows)
    found = []
    with model.fit_[0]._rows.lock:  # as a thread does that learns something else, for however long
        thread = threading.Thread(target=lambda: found.append(model.predict_proba(rows)), daemon=True)
        thread.start()
        thread.join(60)
    assert len(found) == 1
    assert alike(found[0], expected)


@pytest.mark.parametrize("kind", ["svm", "groups", "gates", "wide", "formula"])
@pytest.mark.parametrize("copied", [copy.deepcopy, lambda model: pickle.loads(pickle.dumps(model))])
def test_copies_and_pickles_are_made_while_others_ask(kind, copied):
    model, rows = copied(KINDS[kind]()[0]), KINDS[kind]()[1]
    expected = answer(QUESTIONS["summary"], *KINDS[kind]())

    def ask():
        for name in ("summary", "curvature", "predictive", "predict_proba"):
            answer(QUESTIONS[name], model, rows)

    found = at_once([lambda: copied(model)] * 4 + [ask] * 4)
    assert all(alike(answer(QUESTIONS["summary"], one, rows), expected) for one in found[:4])


def test_pickles_hold_no_locks():
    model, _ = KINDS["svm"]()
    answer(QUESTIONS["summary"], model, None)
    text = pickle.dumps(model)
    assert b"RLock" not in text
    assert b"_covariances" not in text


def test_fits_at_once_are_those_of_one_after_another():
    X, y = asked_at_once.table()
    few, others = asked_at_once.table(60, 150), asked_at_once.table(n_classes=3)
    ridge, gates = Ridge(), LaplaceZero()

    def fits():
        return [
            lambda: VBSVC(ridge).fit(X, y),
            lambda: VBSVC(ridge).fit(X, 1 - y),
            lambda: VBLogistic(ridge).fit(X, y),
            lambda: VBSVC(gates).fit(X, y),
            lambda: VBSVC(ridge, class_weight="balanced").fit(X, y),
            lambda: VBSVC(ridge).fit(*few),
            lambda: VBSVC(ridge).fit(*few),
            lambda: VBLogistic(ridge).fit(*others),
        ]

    alone = [one() for one in fits()]
    for one, other in zip(at_once(fits()), alone, strict=True):
        assert alike([one.coef_, one.coef_std_, np.asarray(one.elbo_)], [other.coef_, other.coef_std_, other.elbo_])


def fits_at_once(kinds, folder):
    """Kinds of models whose fit among others differs from their fit alone; text files are read as well."""
    path = folder / "rows.csv"
    asked_at_once.frame().to_csv(path, index=False)

    def coefficients(kind):
        if kind != "files":
            model, rows = KINDS[kind]()
            return plain([fit.coef for fit in asked_at_once._fits(model)] + [model.decision_function(rows)])
        return VBSVC().fit_files(Files(path, cache=folder / str(threading.get_ident())), "y", features=["a", "b"]).coef_

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        alone = [coefficients(kind) for kind in kinds]
        found = at_once([lambda kind=kind: coefficients(kind) for kind in kinds])
    return [kind for kind, one, other in zip(kinds, found, alone, strict=True) if not alike(one, other)]


def test_formulas_samplers_and_files_at_once_are_those_of_one_after_another(tmp_path):
    kinds = ["formula", "formula with groups", "integrated groups", "sampled", "missing", "gates", "files", "files"]
    assert fits_at_once(kinds, tmp_path) == []


@pytest.mark.long
def test_fits_of_every_kind_at_once_are_those_of_one_after_another(tmp_path):
    kinds = [*KINDS, "files"]
    for k in range(40):
        chosen = [kinds[i] for i in np.random.default_rng(k).choice(len(kinds), N_THREADS)]
        assert fits_at_once(chosen, tmp_path) == []


def test_predictions_do_not_change_warning_filters_themselves(monkeypatch):
    """Filters belong to the process. pandas and scikit-learn change them for moments of their own."""
    fit, rows = KINDS["formula"]()
    enter, callers = warnings.catch_warnings.__enter__, []

    def noted(self):
        callers.append(Path(sys._getframe(1).f_code.co_filename))
        return enter(self)

    monkeypatch.setattr(warnings.catch_warnings, "__enter__", noted)
    fit.predict_proba(rows)
    home = Path(vbsvm.__file__).parent
    assert not [caller for caller in callers if home in caller.parents]
    with warnings.catch_warnings():
        assert callers[-1] == Path(__file__)  # those who do are noted
