"""Rows in files give the results of rows in memory; files and caches that are not what they should be are refused."""

import errno
import gc
import gzip
import os
import subprocess
import sys
import threading
import tracemalloc
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest

from vbsvm import (
    VBSVC,
    Files,
    GaussianImputation,
    Gibbs,
    LaplaceZero,
    Model,
    Variational,
    VBLogistic,
    cross_validate,
    load,
)
from vbsvm.inference import loop
from vbsvm.results import fit_predictions, training_rows
from vbsvm.sources import files as file_sources
from vbsvm.sources import files_cache, files_text, rows
from vbsvm.sources.memory import Memory

pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
pq = pytest.importorskip("pyarrow.parquet")

TIGHT = Variational(tol=1e-12, max_iter=3000)
INPUTS = ["x", "z", "v"]


def table(n=240, seed=0):
    rng = np.random.default_rng(seed)
    x, z = rng.normal(size=n), rng.normal(size=n)
    frame = pd.DataFrame({"x": x, "z": 3 + 10 * z, "v": rng.normal(size=n) * 1e-3})
    frame["k"] = rng.choice(["u", "v", "t"], n)
    frame["g"], frame["h"] = rng.integers(0, 8, n), rng.choice(list("abc"), n)
    frame["i"], frame["b"] = rng.integers(1, 5, n), rng.random(n) < 0.5
    frame["w"] = rng.integers(0, 3, n).astype(float)
    frame["y"] = np.where(x - z + (frame["k"] == "u") + frame["g"] / 8 + 1.5 * rng.logistic(size=n) > 0, "yes", "no")
    frame["three"] = np.where(x + rng.logistic(size=n) > 0.5, 3, np.where(z + rng.logistic(size=n) > 0, 7, 5))
    frame["size"] = pd.Categorical(rng.choice(["low", "mid", "high"], n), categories=["low", "mid", "high"])
    return frame


def holed(frame, seed=1):
    rng = np.random.default_rng(seed)
    return frame.assign(**{name: frame[name].mask(rng.random(len(frame)) < 0.1) for name in ("x", "k")})


def written(frame, folder, cuts=(0, 70, 70, 170, 240), ending="parquet", **options):
    """The rows in several files, one of them empty, in several row groups."""
    folder.mkdir(exist_ok=True)
    for number, (begin, end) in enumerate(pairwise(cuts)):
        part, path = frame.iloc[begin:end], folder / f"part{number}.{ending}"
        if ending == "parquet":
            part.to_parquet(path, **{"row_group_size": 32, **options})
        else:
            part.to_csv(path, index=False, **options)
    return folder


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch, tmp_path):
    """Pieces of a few rows, pages that are let go all the time, and a cache of the test's own."""
    monkeypatch.setattr(file_sources, "PIECE", 0.0)
    monkeypatch.setattr(file_sources, "MIN_ROWS", 50)
    monkeypatch.setattr(rows, "RUN", 64)
    monkeypatch.setattr(files_text, "SCAN_ROWS", 30)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "users"))


def means(fit):
    return np.asarray(fit.outcome.state.coefficients.mean)


CLASSIFIERS = {
    "dense": ({}, INPUTS, None, "y"),
    "weights": ({"standardize": False}, INPUTS, "w", "y"),
    "balanced": ({"class_weight": "balanced"}, INPUTS, "w", "y"),
    "gates": ({"prior": LaplaceZero()}, INPUTS, None, "y"),
    "group": ({"group": "g"}, [*INPUTS, "g"], None, "y"),
    "several classes": ({}, INPUTS, None, "three"),
    "without intercept": ({"fit_intercept": False}, INPUTS, None, "y"),
    "numbers of all kinds": ({}, ["x", "i", "b"], "w", "y"),
}


@pytest.mark.parametrize("cheap", [True, False], ids=["rows may be kept", "nothing is kept"])
@pytest.mark.parametrize("case", CLASSIFIERS)
def test_a_classifier_of_files_is_that_of_the_rows(case, cheap, tmp_path, monkeypatch):
    if not cheap:
        monkeypatch.setattr(rows.Pages, "can_cache", lambda self, n_rows: False)
    settings, features, weights, target = CLASSIFIERS[case]
    frame = table()
    sample_weight = None if weights is None else frame[weights]
    whole = VBSVC(inference=TIGHT, **settings).fit(frame[features], frame[target], sample_weight)
    found = VBSVC(inference=TIGHT, **settings).fit_files(
        written(frame, tmp_path / "d"), target, features=features, weights=weights
    )
    assert found.classes_.tolist() == whole.classes_.tolist()
    assert found.feature_names_in_.tolist() == features
    assert found.elbo_ == pytest.approx(whole.elbo_, rel=1e-10)
    for one, other in zip(found.fit_, whole.fit_, strict=True):
        assert means(one) == pytest.approx(means(other), abs=1e-8)
        assert one.facts.rows == other.facts.rows
    assert found.predict_proba(frame[features]) == pytest.approx(whole.predict_proba(frame[features]), abs=1e-6)
    assert found.coef_std_ == pytest.approx(whole.coef_std_, rel=1e-3)
    assert np.isfinite(found.imputation_mean_).all()


def test_missing_inputs_of_a_classifier(tmp_path):
    frame = holed(table())
    whole = VBSVC(inference=TIGHT).fit(frame[INPUTS], frame["y"])
    found = VBSVC(inference=TIGHT).fit_files(written(frame, tmp_path / "d"), "y", features=INPUTS)
    assert means(found.fit_[0]) == pytest.approx(means(whole.fit_[0]), abs=1e-8)
    pd.testing.assert_frame_equal(found.missing_summary(), whole.missing_summary())
    assert found.predict_proba(frame[INPUTS]) == pytest.approx(whole.predict_proba(frame[INPUTS]), abs=1e-8)


FORMULAS = [
    ("y ~ x + z", False, {}),
    ("y ~ x * k + C(i) + b + size", False, {}),
    ("y ~ x + (1 | g)", False, {}),
    ("y ~ x + (0 + x | g) + (1 | h)", False, {}),
    ("y ~ x + (1 | g:h)", False, {"weights": "w"}),
    ("y ~ s(x) + s(z, k=6)", False, {}),
    ("y ~ poly(x, 3) + scale(z) + bs(v, df=5)", False, {}),
    ("y ~ log(i) + x:z + (1 | g)", False, {"weights": "w"}),
    ("y ~ 0 + x + z + k", False, {"standardize": False}),
    ("three ~ x + z", False, {"positive": 5}),
    ("y ~ x + z", True, {}),
    ("y ~ x * z + (1 | g)", True, {}),
    ("y ~ k + z + (1 | g)", True, {"imputation": GaussianImputation(labels="likelihood")}),
    ("y ~ k + z + (1 | g)", True, {}),
    ("y ~ x * z + k", True, {"weights": "w"}),
    ("y ~ z + k", True, {"imputation": GaussianImputation(labels="none")}),
    ("y ~ x * z + k", True, {"imputation": GaussianImputation(labels="likelihood")}),
    ("y ~ x + k", True, {"missing": "drop"}),
]


@pytest.mark.parametrize(("formula", "holes", "settings"), FORMULAS, ids=lambda one: str(one))
def test_a_formula_of_files_is_that_of_the_rows(formula, holes, settings, tmp_path):
    frame = holed(table()) if holes else table()
    whole_model = Model(formula, frame, **settings)
    model = Model(formula, str(written(frame, tmp_path / "d") / "*.parquet"), **settings)
    assert str(model) == str(whole_model)
    whole, found = whole_model.fit(TIGHT), model.fit(TIGHT)
    assert found.elbo == pytest.approx(whole.elbo, rel=1e-10)
    assert means(found) == pytest.approx(means(whole), abs=1e-8)
    assert found.predict_proba(frame) == pytest.approx(whole.predict_proba(frame), abs=1e-6)
    assert found.facts.n_dropped == whole.facts.n_dropped


@pytest.mark.parametrize("cuts", [(0, 240), (0, 1, 2, 239, 240), (0, 0, 120, 240, 240)])
def test_any_cut_of_the_rows_gives_the_same(cuts, tmp_path):
    frame = table()
    whole = Model("y ~ s(x) + k + (1 | g)", frame).fit(TIGHT)
    found = Model("y ~ s(x) + k + (1 | g)", written(frame, tmp_path / "d", cuts)).fit(TIGHT)
    assert means(found) == pytest.approx(means(whole), abs=1e-8)


@pytest.mark.parametrize("cuts", [(0, 240), (0, 1, 2, 239, 240), (0, 0, 120, 240, 240)])
@pytest.mark.parametrize("formula", ["y ~ z * k + x", "y ~ z + k + size + (1 | g)"])
def test_missing_categories_in_any_cut_of_the_rows(formula, cuts, tmp_path):
    """The first rows are of one class, and lack no category; later both k and size are missing."""
    frame = table().sort_values("y", ascending=False, ignore_index=True)
    frame.loc[120:, ["k", "size", "x"]] = frame.loc[120:, ["k", "size", "x"]].mask(
        np.random.default_rng(0).random((120, 3)) < 0.2
    )
    assert frame["y"][:100].nunique() == 1
    whole = Model(formula, frame).fit(TIGHT)
    found = Model(formula, written(frame, tmp_path / "d", cuts)).fit(TIGHT)
    assert found.elbo == pytest.approx(whole.elbo, rel=1e-10)
    assert means(found) == pytest.approx(means(whole), abs=1e-8)
    np.testing.assert_allclose(
        found.spec.missing.levels.given.conditionals[0].effects,
        whole.spec.missing.levels.given.conditionals[0].effects,
        atol=1e-9,
    )
    to = tmp_path / "predicted.parquet"
    assert found.predict_files(tmp_path / "d", to, proba=True) == 240
    np.testing.assert_allclose(pd.read_parquet(to).iloc[:, -2:], whole.predict_proba(frame), atol=1e-6)


def test_files_of_one_class_each(tmp_path):
    frame = table().sort_values("y")
    n_no = int((frame["y"] == "no").sum())
    whole = VBSVC(inference=TIGHT).fit(frame[INPUTS], frame["y"])
    found = VBSVC(inference=TIGHT).fit_files(written(frame, tmp_path / "d", (0, n_no, 240)), "y", features=INPUTS)
    assert found.coef_ == pytest.approx(whole.coef_, abs=1e-8)


@pytest.mark.parametrize("options", [{}, {"sep": ";"}, {"sep": ";", "decimal": ","}])
@pytest.mark.parametrize("ending", ["csv", "csv.gz"])
def test_csv_is_read_as_it_is_in_memory(options, ending, tmp_path):
    frame = table().drop(columns="size")
    whole = Model("y ~ x * k + b + (1 | g)", frame).fit(TIGHT)
    found = Model("y ~ x * k + b + (1 | g)", written(frame, tmp_path / "d", ending=ending, **options)).fit(TIGHT)
    assert means(found) == pytest.approx(means(whole), abs=1e-8)


def test_float32_stays_float32(tmp_path):
    frame = table()[INPUTS].astype(np.float32).assign(y=table()["y"])
    whole = VBSVC(inference=TIGHT).fit(frame[INPUTS], frame["y"])
    found = VBSVC(inference=TIGHT).fit_files(written(frame, tmp_path / "d"), "y")
    assert found.fit_[0]._rows.source.X.dtype == np.float32
    assert found.coef_ == pytest.approx(whole.coef_, rel=1e-6)


def test_looks_at_wide_text_hold_few_rows(tmp_path, monkeypatch):
    """What a column holds was once found from 50 000 rows together, which took 500 MB with 400 columns."""
    monkeypatch.setattr(files_text, "SCAN_ROWS", 50_000)
    monkeypatch.setattr(files_text, "SCAN_BYTES", 40_000)
    monkeypatch.setattr(files_text, "FIRST_SCAN", 10)
    sizes, look = [], files_text.ColumnContents.from_values
    monkeypatch.setattr(
        files_text.ColumnContents, "from_values", staticmethod(lambda column: sizes.append(len(column)) or look(column))
    )
    wide = pd.DataFrame(np.random.default_rng(0).normal(size=(300, 100)).round(3)).add_prefix("x")
    wide.loc[299, "x7"] = np.nan
    wide.assign(name="a long name " * 10).to_csv(tmp_path / "wide.csv", index=False)
    table = Files(tmp_path / "wide.csv").opened()
    assert table.files[0].n_rows == 300
    assert (table.types["x0"], table.types["x7"], table.types["name"]) == ("numbers", "numbers", "text")
    assert max(sizes) * (100 * 8 + 120) < 50_000
    assert min(sizes) >= 1


def test_rows_with_text_make_smaller_pieces(tmp_path, monkeypatch):
    monkeypatch.setattr(file_sources, "PIECE", 1 / 16)
    monkeypatch.setattr(file_sources, "MIN_ROWS", 1)
    table().loc[:, ["x", "g"]].to_csv(tmp_path / "rows.csv", index=False)
    opened = Files(tmp_path / "rows.csv").opened({"g"})
    small = replace(opened, limit=200_000)
    numbers, both = (max(len(one.frame) for one in small.pieces(names)) for names in (["x"], ["x", "g"]))
    assert both < numbers < 240


@pytest.mark.filterwarnings("ignore:.*have not converged")
def test_a_sampler_draws_the_same_from_files_as_from_memory(tmp_path):
    frame = table()
    short = Gibbs(draws=20, tune=10, chains=2)
    whole = Model("y ~ x + z", frame).fit(short, random_state=1)
    found = Model("y ~ x + z", written(frame, tmp_path / "d")).fit(short, random_state=1)
    assert found.outcome.coefficients == pytest.approx(whole.outcome.coefficients, rel=1e-8)


def test_left_out_predictions_are_in_the_order_of_the_files(tmp_path):
    frame = table()
    models = {"whole": frame, "files": written(frame, tmp_path / "d")}
    fits = {name: Model("y ~ x + (1 | g)", data).fit(TIGHT) for name, data in models.items()}
    found = {name: fit.left_out_predictions(refits=0) for name, fit in fits.items()}
    assert found["files"].log_probability == pytest.approx(found["whole"].log_probability, abs=1e-6)
    assert (found["files"].rows == np.arange(240)).all()


def test_probabilities_of_many_rows_are_learned_from_some_of_them(tmp_path, monkeypatch):
    frame = table(4000)
    monkeypatch.setattr(training_rows, "MAX_LEFT_OUT", 1000)
    monkeypatch.setattr(Memory, "_block_rows", lambda self: 100)
    whole = VBSVC().fit(frame[INPUTS], frame["y"])
    found = VBSVC().fit_files(written(frame, tmp_path / "d", (0, 4000), row_group_size=500), "y", features=INPUTS)
    assert found.fit_[0]._rows.every == 4
    one, other = found.predict_proba(frame[INPUTS]), whole.predict_proba(frame[INPUTS])
    assert 1e-6 < np.abs(one - other).max() < 0.05  # another sample of rows, not another model
    with pytest.raises(ValueError, match="4000 rows in files, too many"):
        found.left_out_predictions()


# The cache


def cache_of(tmp_path):
    return sorted(one.name for one in (tmp_path / "cache").iterdir())


def test_rows_in_a_named_cache_are_used_again(tmp_path, monkeypatch):
    files = Files(written(table(), tmp_path / "d"), cache=tmp_path / "cache")
    first = VBSVC().fit_files(files, "y", features=INPUTS)
    assert len(cache_of(tmp_path)) == 1
    monkeypatch.setattr(file_sources.FileTable, "pieces", lambda *_: pytest.fail("the files are read again"))
    second = VBSVC(prior=LaplaceZero()).fit_files(files, "y", features=INPUTS)
    again = VBSVC().fit_files(files, "y", features=INPUTS)
    assert (again.coef_ == first.coef_).all()
    assert not (second.coef_ == first.coef_).all()


def test_other_files_or_settings_are_encoded_anew(tmp_path):
    folder = written(table(), tmp_path / "d")
    files = Files(folder, cache=tmp_path / "cache")
    VBSVC().fit_files(files, "y", features=INPUTS)
    VBSVC().fit_files(files, "y", features=INPUTS[:2])
    VBSVC(class_weight="balanced").fit_files(files, "y", features=INPUTS)
    assert len(cache_of(tmp_path)) == 3
    changed = table(seed=3)
    found = VBSVC(inference=TIGHT).fit_files(Files(written(changed, folder), tmp_path / "cache"), "y", features=INPUTS)
    whole = VBSVC(inference=TIGHT).fit(changed[INPUTS], changed["y"])
    assert found.coef_ == pytest.approx(whole.coef_, abs=1e-8)


def test_the_users_cache_is_emptied_when_the_fit_is_gone(tmp_path):
    users = tmp_path / "users" / "vbsvm"
    clf = VBSVC().fit_files(written(table(), tmp_path / "d"), "y", features=INPUTS)
    assert len(list(users.iterdir())) == 1
    assert clf.predict_proba(table()[INPUTS]).shape == (240, 2)
    del clf
    gc.collect()
    assert list(users.iterdir()) == []


def test_a_damaged_cache_is_written_anew(tmp_path):
    files = Files(written(table(), tmp_path / "d"), cache=tmp_path / "cache")
    first = VBSVC().fit_files(files, "y", features=INPUTS)
    (folder,) = (tmp_path / "cache").iterdir()
    content = (folder / "learned.vbsvm").read_bytes()
    (folder / "learned.vbsvm").write_bytes(content[:-20])
    assert (VBSVC().fit_files(files, "y", features=INPUTS).coef_ == first.coef_).all()
    (folder / "X.npy").unlink()
    assert (VBSVC().fit_files(files, "y", features=INPUTS).coef_ == first.coef_).all()


@pytest.mark.parametrize("name", ["X.npy", "signs0.npy", "weights.npy"])
@pytest.mark.parametrize("damage", ["empty", "short", "long", "flipped"])
def test_damaged_arrays_of_a_cache_are_written_anew(damage, name, tmp_path):
    files = Files(written(table(), tmp_path / "d"), cache=tmp_path / "cache")
    first = VBSVC().fit_files(files, "y", features=INPUTS, weights="w")
    (folder,) = (tmp_path / "cache").iterdir()
    content = (folder / name).read_bytes()
    middle = len(content) * 3 // 4
    (folder / name).write_bytes(
        {
            "empty": b"",
            "short": content[:-8],
            "long": content + bytes(8),
            "flipped": content[:middle] + bytes([content[middle] ^ 0x40]) + content[middle + 1 :],
        }[damage]
    )
    assert (VBSVC().fit_files(files, "y", features=INPUTS, weights="w").coef_ == first.coef_).all()
    assert (folder / name).read_bytes() == content


class StopError(Exception):
    """Ends a fit as a killed process would."""


@pytest.mark.parametrize("formula", ["y ~ x + z", "y ~ x + (1 | g)"])
def test_an_interrupted_climb_goes_on(formula, tmp_path, monkeypatch):
    monkeypatch.setattr(loop, "SECONDS_BETWEEN", -1.0)
    frame, inference = table(), Variational(tol=1e-12, accelerate=False, max_iter=3000)
    whole = Model(formula, frame, likelihood="hinge").fit(inference)
    files = Files(written(frame, tmp_path / "d"), cache=tmp_path / "cache")
    reached = loop.CheckpointCallback.on_step
    n_steps = 0

    def stop(self, outcome, tol):
        nonlocal n_steps
        reached(self, outcome, tol)
        n_steps += 1
        if n_steps == 20:
            raise StopError

    with monkeypatch.context() as patch:
        patch.setattr(loop.CheckpointCallback, "on_step", stop)
        with pytest.raises(StopError):
            Model(formula, files, likelihood="hinge").fit(inference)
    assert any(name.endswith(".climb") for name in cache_of(tmp_path))
    found = Model(formula, files, likelihood="hinge").fit(inference)
    assert not any(name.endswith(".climb") for name in cache_of(tmp_path))
    assert len(found.bounds) >= 20
    assert (np.diff(found.bounds) > -1e-9).all()
    assert means(found) == pytest.approx(means(whole), abs=1e-6)  # plain sweeps stop where they creep


def test_ctrl_c_stores_what_has_been_reached_and_the_next_fit_goes_on(tmp_path, monkeypatch):
    frame, calls = table(), []
    files = Files(written(frame, tmp_path / "d"), cache=tmp_path / "cache")
    reached = loop.CheckpointCallback.on_step

    def interrupt(self, outcome, tol):
        reached(self, outcome, tol)
        calls.append(outcome)
        if len(calls) == 3:
            raise KeyboardInterrupt

    clf = VBSVC(inference=TIGHT)
    with monkeypatch.context() as patch:
        patch.setattr(loop.CheckpointCallback, "on_step", interrupt)
        with pytest.raises(KeyboardInterrupt):
            clf.fit_files(files, "y", features=INPUTS)
    assert not clf.converged_
    assert clf.coef_.shape == (1, 3)
    again = VBSVC(inference=TIGHT).fit_files(files, "y", features=INPUTS)
    assert again.elbo_trace_[0][:3] == pytest.approx(calls[2].bounds[:3])
    assert again.coef_ == pytest.approx(VBSVC(inference=TIGHT).fit(frame[INPUTS], frame["y"]).coef_, rel=1e-6)


def test_each_class_has_a_line_of_its_own(tmp_path, capsys):
    files = Files(written(table(), tmp_path / "d"), cache=tmp_path / "cache", progress=True)
    VBSVC().fit_files(files, "three", features=INPUTS)
    told = [line for line in capsys.readouterr().err.split("\n") if ": bound " in line]
    assert len(told) == 3


def test_two_processes_may_share_a_cache(tmp_path):
    folder = written(table(), tmp_path / "d")
    code = (
        "import sys; from vbsvm import VBSVC, Files\n"
        "clf = VBSVC().fit_files(Files(sys.argv[1], cache=sys.argv[2]), 'y', features=['x', 'z', 'v'])\n"
        "print(clf.coef_.tolist(), clf.predict_proba([[0.1, 3.0, 0.0]]).tolist())"
    )
    command = [sys.executable, "-W", "ignore", "-c", code, str(folder), str(tmp_path / "cache")]
    both = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    said = [one.communicate(timeout=120)[0] for one in both]
    assert [one.returncode for one in both] == [0, 0]
    assert said[0] == said[1] != ""
    assert len(cache_of(tmp_path)) == 1


def test_threads_that_write_the_same_rows(tmp_path):
    files = Files(written(table(), tmp_path / "d"), cache=tmp_path / "cache")
    found = []
    threads = [
        threading.Thread(target=lambda: found.append(VBSVC().fit_files(files, "y", features=INPUTS).coef_))
        for _ in range(3)
    ]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert len(found) == 3
    assert len(cache_of(tmp_path)) == 1
    assert (found[0] == found[1]).all()


def test_a_full_disk_is_told_and_leaves_nothing(tmp_path, monkeypatch):
    folder = written(table(), tmp_path / "d")

    def full(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(files_cache, "_allocate", full)
    with pytest.raises(OSError, match=r"can't be written to .*cache \(No space left on device\). Free disk"):
        VBSVC().fit_files(Files(folder, cache=tmp_path / "cache"), "y", features=INPUTS)
    assert cache_of(tmp_path) == []


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_a_full_disk_is_told_where_predictions_are_written(ending, tmp_path, monkeypatch):
    def full(*_, **__):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    frame = table()
    clf = VBSVC().fit(frame[INPUTS], frame["y"])
    monkeypatch.setattr(pd.DataFrame, "to_csv", full)
    monkeypatch.setattr(fit_predictions.ParquetWriter, "write", full)
    with pytest.raises(OSError, match=f"The disk of .*scores.{ending} is full. Free space there"):
        clf.predict_files(written(frame, tmp_path / "d"), tmp_path / f"scores.{ending}")
    assert sorted(one.name for one in tmp_path.iterdir()) == ["d"]


def test_what_killed_processes_left_is_removed(tmp_path):
    left = tmp_path / "cache" / ".0123.ab.part"
    left.mkdir(parents=True)
    os.utime(left, (0, 0))
    VBSVC().fit_files(Files(written(table(), tmp_path / "d"), cache=tmp_path / "cache"), "y", features=INPUTS)
    assert not left.exists()


def test_files_that_change_while_they_are_read_are_refused(tmp_path, monkeypatch):
    folder = written(table(), tmp_path / "d")
    learn = files_cache.Cache.create

    def change(self):
        written(table(seed=5), folder)
        return learn(self)

    monkeypatch.setattr(files_cache.Cache, "create", change)
    with pytest.raises(ValueError, match=r"part0.parquet has changed while it was read"):
        VBSVC().fit_files(Files(folder, cache=tmp_path / "cache"), "y", features=INPUTS)
    assert cache_of(tmp_path) == []


# What is wrong with files


def test_names_that_match_nothing(tmp_path):
    (tmp_path / "empty").mkdir()
    for given, said in [
        (tmp_path / "no.parquet", "There is no file"),
        (str(tmp_path / "*.parquet"), "No file matches"),
        (tmp_path / "empty", "has no file that ends in"),
    ]:
        with pytest.raises(FileNotFoundError, match=said):
            VBSVC().fit_files(given, "y")
    with pytest.raises(ValueError, match="No files are named"):
        VBSVC().fit_files([], "y")
    with pytest.raises(TypeError, match="named by text or paths; got int"):
        VBSVC().fit_files([3], "y")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="a system without named pipes")
def test_what_matches_and_is_no_file_is_refused_by_name(tmp_path):
    folder = written(table(), tmp_path / "d")
    odd = folder / "part9.parquet"
    for make, said in [
        (lambda: odd.symlink_to(tmp_path / "gone.parquet"), "is a link to a file that is not there"),
        (lambda: odd.symlink_to(odd), "is a link to a file that is not there"),
        (lambda: os.mkfifo(odd), "is not a regular file"),
        (odd.mkdir, "is a folder"),
    ]:
        make()
        for given in (folder, str(folder / "*.parquet"), str(tmp_path / "*" / "part9.parquet"), [odd]):
            if given == [odd] and (odd.is_dir() or not odd.exists()):
                continue  # the folder's own files are meant, or there is no such file
            with pytest.raises((ValueError, FileNotFoundError), match=f"part9.parquet {said}"):
                VBSVC().fit_files(given, "y", features=INPUTS)
        odd.rmdir() if odd.is_dir() else odd.unlink()
    (folder / "year=2024").mkdir()
    with pytest.raises(ValueError, match="year=2024 is a folder: its rows would be left out"):
        VBSVC().fit_files(folder, "y", features=INPUTS)
    (folder / "notes").mkdir()
    (folder / "_SUCCESS").touch()
    VBSVC().fit_files(str(folder / "*.parquet"), "y", features=INPUTS)


def test_subfolders_with_tables_are_refused(tmp_path):
    """Their rows would be left out; folders without tables, and names that begin with _ or ., are left alone."""
    folder = written(table(), tmp_path / "d")
    for name in ("notes", "_temporary/a", ".hidden"):
        (folder / name).mkdir(parents=True)
    for name in ("notes/read.me", "_temporary/a/x.parquet", ".hidden/x.parquet", "_x.parquet", ".x.parquet"):
        (folder / name).touch()
    VBSVC().fit_files(folder, "y", features=INPUTS)
    (folder / "more" / "deep").mkdir(parents=True)
    table().to_parquet(folder / "more" / "deep" / "x.parquet")
    with pytest.raises(ValueError, match="more is a folder: its rows would be left out"):
        VBSVC().fit_files(folder, "y", features=INPUTS)


def test_a_file_that_is_named_twice_is_refused(tmp_path):
    folder = written(table(), tmp_path / "d")
    for given in ([folder / "part0.parquet"] * 2, [folder, folder / "part0.parquet"], [f"{folder}/*.parquet", folder]):
        with pytest.raises(ValueError, match=r"part0\.parquet is named twice in the list"):
            VBSVC().fit_files(given, "y", features=INPUTS)


def test_files_of_different_columns_are_named(tmp_path):
    folder = written(table(), tmp_path / "d")
    table().drop(columns="x").to_parquet(folder / "part2.parquet")
    with pytest.raises(ValueError, match=r"part2.parquet has no column 'x', which .*part0.parquet has"):
        VBSVC().fit_files(folder, "y")
    table().assign(x="text").to_parquet(folder / "part2.parquet")
    with pytest.raises(ValueError, match=r"Column 'x' contains text in .*part2.parquet, and numbers in .*part0"):
        VBSVC().fit_files(folder, "y")
    table().assign(more=1).to_parquet(folder / "part2.parquet")
    with pytest.raises(ValueError, match=r"part2.parquet has a column 'more'"):
        VBSVC().fit_files(folder, "y")


def test_a_file_that_was_cut_short_is_named(tmp_path):
    folder = written(table(), tmp_path / "d")
    content = (folder / "part2.parquet").read_bytes()
    (folder / "part2.parquet").write_bytes(content[: len(content) // 2])
    with pytest.raises(ValueError, match=r"part2.parquet can't be read as Parquet: it was cut short"):
        VBSVC().fit_files(folder, "y", features=INPUTS)
    spoilt = bytearray(content)
    spoilt[4:400] = b"\xff" * 396
    (folder / "part2.parquet").write_bytes(spoilt)
    with pytest.raises(ValueError, match=r"part2.parquet"):
        VBSVC().fit_files(Files(folder, tmp_path / "cache"), "y", features=INPUTS)
    assert not (tmp_path / "cache").exists() or cache_of(tmp_path) == []


def test_garbled_parquet_is_named(tmp_path):
    """Wherever bytes are changed, the file loads (data have no checksums of their own) or is refused by its name."""
    table().to_parquet(tmp_path / "whole.parquet")
    content, rng, refused = (tmp_path / "whole.parquet").read_bytes(), np.random.default_rng(0), 0
    for _ in range(150):
        begin = int(rng.integers(max(0, len(content) - 6000), len(content) - 8))
        (tmp_path / "d.parquet").write_bytes(content[:begin] + rng.bytes(8) + content[begin + 8 :])
        try:
            for _ in Files(tmp_path / "d.parquet").opened().pieces([]):
                pass
        except ValueError as error:
            assert str(error).startswith(f"{tmp_path / 'd.parquet'} can't be read as Parquet")  # noqa: PT017
            refused += 1
    assert refused > 50


def test_bad_values_are_named_by_file_and_row(tmp_path):
    frame = table()
    frame.loc[150, "x"] = np.inf
    folder = written(frame, tmp_path / "d")
    with pytest.raises(ValueError, match=r"part2.parquet: .*infinity in column 'x' \(first in row 80\)"):
        VBSVC().fit_files(folder, "y", features=INPUTS)
    with pytest.raises(ValueError, match=r"part2.parquet: x is inf in row 80"):
        Model("y ~ x", folder)
    written(table().assign(y=table()["y"].mask(np.arange(240) == 239)), folder)
    with pytest.raises(ValueError, match=r"part3.parquet: .*the label of row 69 is missing"):
        VBSVC().fit_files(folder, "y", features=INPUTS)
    with pytest.raises(ValueError, match=r"part3.parquet: Column 'y' has no value in row 69"):
        Model("y ~ x", folder)
    with pytest.raises(ValueError, match="Unknown label type: continuous"):
        VBSVC().fit_files(folder, "z")
    with pytest.raises(ValueError, match=r"part0.parquet: Column 'k' is not numeric"):
        VBSVC().fit_files(folder, "three", features=["x", "k"])


def test_csv_that_is_no_table_is_named(tmp_path):
    for content, said in [
        ("a,b\n1,2\n3,4,5\n", "d.csv: line 3 has 3 cells, and the header has 2 names"),
        ("a,b\n1,2\n3\n", "d.csv: line 3 has 1 cell, and the header has 2 names"),
        ("a,b\n1,2,3\n4,5\n", "d.csv: line 2 has 3 cells, and the header has 2 names"),
        ("a,b\n1,2,\n3,4,5\n", "d.csv: line 3 has 3 cells, and the header has 2 names"),
        ("a,b\n1,2,,\n3,4,,\n", "d.csv: line 2 has 4 cells, and the header has 2 names"),
        ("a,a\n1,2\n", "d.csv has two columns named 'a'"),
        ("a,b\n1,2\n3,4,\n", "d.csv: line 3 has 3 cells, and the header has 2 names"),
        ('a,b\n1,2\n"3,4\n', "d.csv: a quotation mark that opens in line 3 is not closed"),
        ("a,b\n1,2\n3,\0\n", "d.csv contains a NUL byte in line 3"),
        ('[{"a": 1, "b": 2}]', "d.csv is JSON: save it as CSV"),
        ("", "d.csv is empty"),
    ]:
        (tmp_path / "d.csv").write_text(content)
        with pytest.raises(ValueError, match=said):
            VBSVC().fit_files(tmp_path / "d.csv", "b")
    (tmp_path / "d.csv").write_bytes(b"a,b\n\xff\xfe,2\n")
    with pytest.raises(ValueError, match=r"d.csv is not UTF-8 text"):
        VBSVC().fit_files(tmp_path / "d.csv", "b")
    (tmp_path / "d.csv").write_text("a,y\n1,u\n2,v\nx,u\n4,v\n")
    with pytest.raises(ValueError, match=r"d.csv: Column 'a' is not numeric: it contains 'x' in row 2"):
        VBSVC().fit_files(tmp_path / "d.csv", "y")


@pytest.mark.parametrize("begin", [b"", b"a,y\n1,u\n2,v\n"], ids=["header", "row"])
@pytest.mark.parametrize("ending", ["csv", "csv.gz"])
def test_a_line_that_does_not_end_is_not_held(ending, begin, tmp_path, monkeypatch):
    monkeypatch.setattr(files_text, "MAX_LINE", 2**20)
    content = begin + b"1" * 30_000_000
    (tmp_path / f"d.{ending}").write_bytes(gzip.compress(content) if ending == "csv.gz" else content)
    del content
    tracemalloc.start()
    try:
        with pytest.raises(ValueError, match=r"d.csv.* has a line of more than 1 MB"):
            Files(tmp_path / f"d.{ending}").opened()
        assert tracemalloc.get_traced_memory()[1] < 20_000_000
    finally:
        tracemalloc.stop()


def test_settings_that_make_no_sense(tmp_path):
    for settings, said in [
        ({"memory_limit": "much"}, "number of bytes, or text such as '500MB'"),
        ({"memory_limit": 1000}, "at least 100MB"),
        ({"cache": "a\0b"}, r"no folder is named 'a\\x00b'"),
    ]:
        with pytest.raises(ValueError, match=said):
            Files("d", **settings)
    assert Files("d", memory_limit="1.5 GB").limit == 1_500_000_000
    folder = written(table(), tmp_path / "d")
    with pytest.raises(ValueError, match=r"target: the files have no column 'Y'.*Did you mean 'y'"):
        VBSVC().fit_files(folder, "Y")
    with pytest.raises(ValueError, match="'y' is one of features, and the target"):
        VBSVC().fit_files(folder, "y", features=["x", "y"])
    with pytest.raises(TypeError, match="give the name of the column of weights"):
        Model("y ~ x", folder, weights=np.ones(240))
    with pytest.raises(ValueError, match="only one class, 1"):
        VBSVC().fit_files(written(table().assign(y=1), tmp_path / "one"), "y", features=INPUTS)


def test_whole_columns_that_do_not_fit_are_refused(tmp_path, monkeypatch):
    from vbsvm.api.data import file_partitions

    monkeypatch.setattr(file_partitions, "WHOLE_COLUMNS_SHARE", 1e-6)
    with pytest.raises(ValueError, match=r"learned from all values of their columns \(x\).*memory_limit"):
        Model("y ~ s(x)", written(table(), tmp_path / "d"))


def test_what_needs_rows_in_memory_says_so(tmp_path):
    model = Model("y ~ x", written(table(), tmp_path / "d"))
    with pytest.raises(ValueError, match="cross_validate is only available for data in memory"):
        cross_validate(model)
    with pytest.raises(ValueError, match="sensitivity is only available for data in memory"):
        model.sensitivity([1.0])


def test_effects_need_rows_in_memory(tmp_path):
    files = Files(written(table(), tmp_path / "d"))
    for fitted in (Model("y ~ x", table()).fit(), VBSVC().fit(table()[["x", "z"]], table()["y"])):
        for method in (fitted.effects, fitted.contrasts, fitted.slopes):
            with pytest.raises(TypeError, match=r"must be rows in memory.*got Files"):
                method("x", data=files)


def test_an_identifier_is_no_class_and_no_category(tmp_path):
    frame = pd.DataFrame({"x": np.arange(20_500.0), "id": [f"n{k}" for k in range(20_500)]})
    frame["y"] = np.where(np.arange(20_500) % 2, "a", "b")
    folder = written(frame, tmp_path / "d", (0, 10_000, 20_500), row_group_size=5000)
    with pytest.raises(ValueError, match="contains more than 10000 different values"):
        VBSVC().fit_files(folder, "id", features=["x"])
    with pytest.raises(ValueError, match="'id' has more than 10000 different values as a category"):
        Model("y ~ id", folder)


# Predictions


def test_predictions_of_files_are_those_of_the_rows(tmp_path):
    frame = table().assign(id=lambda rows: np.arange(len(rows)).astype(float))
    frame.loc[5, "id"] = np.nan
    folder = written(frame, tmp_path / "d")
    for fitted, inputs in [
        (Model("y ~ x + k + (1 | g)", frame).fit(), frame),
        (VBSVC().fit(frame[INPUTS], frame["three"]), frame[INPUTS]),
    ]:
        for name in ("p.parquet", "p.csv"):
            n_rows = fitted.predict_files(
                folder, tmp_path / name, proba=True, scores=True, keep=["id", "k"], overwrite=True
            )
            read = pd.read_parquet if name.endswith("parquet") else pd.read_csv
            found = read(tmp_path / name)
            assert n_rows == len(found) == 240
            assert found["prediction"].tolist() == fitted.predict(inputs).tolist()
            assert found["id"].isna().sum() == 1
            assert found["k"].tolist() == frame["k"].tolist()
            chances = found.filter(like="probability").to_numpy()
            assert chances == pytest.approx(fitted.predict_proba(inputs), abs=1e-12)


def test_predictions_that_fail_leave_what_was_there(tmp_path):
    frame = table()
    fit = Model("y ~ x", frame).fit()
    frame.loc[200, "x"] = np.inf
    folder = written(frame, tmp_path / "d")
    (tmp_path / "p.csv").write_text("before")
    with pytest.raises(ValueError, match=r"part3.parquet: x is inf in row 30"):
        fit.predict_files(folder, tmp_path / "p.csv", overwrite=True)
    assert (tmp_path / "p.csv").read_text() == "before"
    assert sorted(one.name for one in tmp_path.iterdir() if one.is_file()) == ["p.csv"]
    with pytest.raises(ValueError, match="is one of the files that are read"):
        fit.predict_files(folder / "part0.parquet", folder / "part0.parquet")
    with pytest.raises(ValueError, match="no column 'K'"):
        fit.predict_files(folder, tmp_path / "q.csv", keep=["K"])
    with pytest.raises(ValueError, match=r"end in .parquet, .csv"):
        fit.predict_files(folder, tmp_path / "q.xlsx")


def test_predictions_do_not_replace_a_file_unasked(tmp_path):
    frame = table()
    fit, folder, to = Model("y ~ x", frame).fit(), written(frame, tmp_path / "d"), tmp_path / "p.csv"
    to.touch()
    assert fit.predict_files(folder, to) == 240  # an empty file is nothing to lose
    before = to.read_bytes()
    for name in (to, str(to)):
        with pytest.raises(FileExistsError, match=r"p\.csv exists already: .*overwrite=True"):
            fit.predict_files(folder, name, proba=True)
    assert to.read_bytes() == before
    assert fit.predict_files(folder, to, proba=True, overwrite=True) == 240
    assert to.read_bytes() != before


def test_dictionaries_that_differ_between_files_are_one_category(tmp_path):
    folder = tmp_path / "d"
    folder.mkdir()
    frame = table()
    for number, (begin, end) in enumerate(pairwise((0, 120, 240))):
        part = frame.iloc[begin:end]
        order = [["low", "mid", "high"], ["high", "low", "mid"]][number]
        coded = pa.DictionaryArray.from_arrays(
            pa.array([order.index(one) for one in part["size"]], pa.int32()), pa.array(order)
        )
        pq.write_table(pa.table({"size": coded, "x": part["x"], "y": part["y"]}), folder / f"{number}.parquet")
    whole, found = Model("y ~ x + size", frame).fit(TIGHT), Model("y ~ x + size", folder).fit(TIGHT)
    assert found.plan.names == whole.plan.names
    assert means(found) == pytest.approx(means(whole), abs=1e-8)


CATEGORIES = ["x", "k", "size", "h", "b"]


@pytest.mark.parametrize("ending", ["parquet", "csv"])
@pytest.mark.parametrize("kind", [VBSVC, VBLogistic])
def test_text_and_categories_in_files_are_encoded_as_in_memory(kind, ending, tmp_path):
    frame = holed(table())
    folder = written(frame, tmp_path / "d", ending=ending)
    settings = {"categories": "one-hot", "inference": TIGHT, "group": "g"}
    near = kind(**settings).fit(frame[[*CATEGORIES, "g"]], frame["y"], sample_weight=frame["w"])
    for _ in range(2):  # the second time from the cache
        clf = kind(**settings).fit_files(
            Files(folder, cache=tmp_path / "cache"), "y", features=[*CATEGORIES, "g"], weights="w"
        )
        assert clf.summary().index.tolist() == near.summary().index.tolist()
        assert {name: list(levels) for name, levels in clf.levels_.items()} == {
            name: list(levels) for name, levels in near.levels_.items()
        }
        assert clf.coef_ == pytest.approx(near.coef_, rel=1e-6, abs=1e-8)
    new = frame[[*CATEGORIES, "g"]].head(20)
    np.testing.assert_allclose(clf.predict_proba(new), near.predict_proba(new), rtol=1e-6)
    clf.save(tmp_path / "model")
    np.testing.assert_array_equal(load(tmp_path / "model").predict(new), clf.predict(new))
    clf.predict_files(folder, tmp_path / "out.csv")
    assert len(pd.read_csv(tmp_path / "out.csv")) == len(frame)
    with pytest.warns(UserWarning, match="Levels not seen in fit"):
        clf.predict(new.assign(k="other"))


def test_levels_of_rows_without_weight_are_none_in_files(tmp_path):
    frame = table().assign(w=1.0)
    frame.loc[3, ["k", "w"]] = ["rare", 0.0]
    folder = written(frame, tmp_path / "d")
    clf = VBSVC(categories="one-hot").fit_files(folder, "y", features=CATEGORIES, weights="w")
    assert list(clf.levels_["k"]) == ["t", "u", "v"]
    assert clf.converged_


def test_categories_in_files_that_can_not_be_encoded(tmp_path):
    frame = table().assign(many=[f"c{k}" for k in range(240)], none=None)
    folder = written(frame.assign(none=frame["none"].astype("string")), tmp_path / "d")
    with pytest.raises((TypeError, ValueError), match="categories="):
        VBSVC().fit_files(folder, "y", features=CATEGORIES)
    with pytest.raises(ValueError, match="Column 'none' has no value in any row"):
        VBSVC(categories="one-hot").fit_files(folder, "y", features=["x", "none"])
    clf = VBSVC(categories="one-hot").fit_files(folder, "y", features=CATEGORIES)
    with pytest.raises(ValueError, match="categories must be"):
        clf.set_params(categories="dummy").fit_files(folder, "y", features=CATEGORIES)
    assert clf.converged_
    clf.set_params(categories=None).fit_files(folder, "y", features=["x", "z"])
    assert not hasattr(clf, "levels_")
    assert clf.coef_.shape == (1, 2)
