"""DaskVBSVC gives what VBSVC gives of the same rows, in words that say which partition is wrong."""

import asyncio
import copy
import gc
import pickle
import signal
import threading
import warnings
from contextlib import contextmanager
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from clusters import kill_during, wait_until, workers
from vbsvm import (
    VBSVC,
    GaussianImputation,
    Gibbs,
    LaplaceZero,
    Model,
    Normal,
    OneClassWarning,
    Variational,
    VBLogistic,
    load,
)
from vbsvm.dask import DaskVBLogistic, DaskVBSVC
from vbsvm.sources import cluster
from vbsvm.sources.distributed import Distributed

distributed = pytest.importorskip("distributed")
da, dd = pytest.importorskip("dask.array"), pytest.importorskip("dask.dataframe")
config, dask = pytest.importorskip("dask.config"), pytest.importorskip("dask")

TIGHT = Variational(tol=1e-12)
NAMES = ["a", "b", "c"]


@pytest.fixture(scope="module")
def client():
    with workers(2) as found:
        yield found


@pytest.fixture(scope="module")
def alone():
    with workers(1, default=False) as found:
        yield found


def data(n=200, seed=0, classes=2, missing=0.0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3)) * [1.0, 5.0, 0.1] + [0.0, 10.0, -3.0]
    score = X[:, 0] - 0.2 * (X[:, 1] - 10) + rng.logistic(size=n)
    y = np.array(["no", "yes"])[(score > 0).astype(int)]
    if classes == 3:
        y[score > 1.5] = "very"
    X[rng.random(X.shape) < missing] = np.nan
    return X, y


def in_chunks(X, sizes):
    return da.from_array(X, chunks=(tuple(sizes), *X.shape[1:]))


def same(far, near, atol=1e-7):
    """The same bound and coefficients, these in units of their spreads."""
    assert far.elbo_ == pytest.approx(near.elbo_, abs=1e-8)
    spread = np.sqrt(near.fit_[0].posterior.variances[-near.coef_.shape[1] :] / near.fit_[0].plan.recipe.scale ** 2)
    np.testing.assert_allclose((far.coef_ - near.coef_) / spread, 0.0, atol=atol)
    np.testing.assert_allclose(far.intercept_, near.intercept_, rtol=atol, atol=atol)
    np.testing.assert_array_equal(far.classes_, near.classes_)


SETTINGS = {
    "default": {},
    "fixed penalty": {"prior": Normal(0.5)},
    "gates": {"prior": LaplaceZero()},
    "exact bound": {"inference": Variational(tol=1e-12, bound="exact")},
    "the paper's sweeps": {"inference": Variational(tol=1e-12, accelerate=False, max_iter=5000)},
    "no intercept": {"fit_intercept": False},
    "not standardised": {"standardize": False},
    "balanced": {"class_weight": "balanced"},
    "calibrated power": {"likelihood_power": "calibrated", "class_weight": "balanced"},
}


@pytest.mark.parametrize("name", SETTINGS)
def test_the_same_fit_and_the_same_probabilities(client, name):
    X, y = data()
    settings = {"inference": TIGHT} | SETTINGS[name]
    far = DaskVBSVC(**settings).fit(in_chunks(X, (60, 0, 90, 50)), in_chunks(y, (200,)))
    near = VBSVC(**settings).fit(X, y)
    # Plain sweeps end where they gain 1e-12, 1.4e-6 standard deviations from the maximum and more.
    same(far, near, atol=1e-7 if settings["inference"].accelerate else 1e-5)
    np.testing.assert_allclose(far.predict_proba(in_chunks(X, (150, 50))), near.predict_proba(X), atol=1e-6)


@pytest.mark.parametrize(
    "settings",
    [{}, {"imputation": GaussianImputation(joint=True)}, {"standardize": False}],
    ids=["regression", "joint", "not standardised"],
)
def test_missing_inputs(client, settings):
    X, y = data(missing=0.1)
    settings = {"inference": Variational(tol=1e-12, max_iter=5000)} | settings
    X[:60, 2] = 1.0  # the first partition misses nothing in this column
    far = DaskVBSVC(**settings).fit(in_chunks(X, (60, 90, 50)), in_chunks(y, (60, 90, 50)))
    near = VBSVC(**settings).fit(X, y)
    same(far, near)
    local = far.to_local()
    pd.testing.assert_frame_equal(local.missing_summary(), near.missing_summary())
    np.testing.assert_allclose(local.impute(X)[0], near.impute(X)[0], rtol=1e-5)
    np.testing.assert_allclose(far.decision_function(in_chunks(X, (200,))), near.decision_function(X), atol=1e-5)


def test_several_classes_and_weights(client):
    X, y = data(classes=3)
    s = np.random.default_rng(1).integers(0, 3, len(y)).astype(float)
    far = DaskVBSVC(inference=TIGHT).fit(*(in_chunks(one, (60, 90, 50)) for one in (X, y, s)))
    near = VBSVC(inference=TIGHT).fit(X, y, s)
    same(far, near)
    rows = in_chunks(X, (110, 90))
    np.testing.assert_allclose(far.decision_function(rows), near.decision_function(X), atol=1e-5)
    np.testing.assert_allclose(far.predict_log_proba(rows), near.predict_log_proba(X), atol=1e-5)
    np.testing.assert_array_equal(far.predict(rows), near.predict(X))
    assert far.score(rows, in_chunks(y, (110, 90))) == pytest.approx(near.score(X, y))


def test_groups(client):
    X, y = data()
    frame = pd.DataFrame(X, columns=NAMES).assign(g=[f"g{k % 7}" for k in range(len(y))], y=y)
    parts = dd.from_pandas(frame, npartitions=3)
    far = DaskVBSVC(group="g", inference=TIGHT).fit(parts[[*NAMES, "g"]], parts["y"])
    near = VBSVC(group="g", inference=TIGHT).fit(frame[[*NAMES, "g"]], frame["y"])
    same(far, near)
    np.testing.assert_allclose(far.random_effects_["estimate"], near.random_effects_["estimate"], atol=1e-5)
    new = parts[[*NAMES, "g"]].assign(g="another")
    np.testing.assert_allclose(
        far.predict_proba(new), near.predict_proba(frame.assign(g="another")[new.columns]), atol=1e-6
    )


def test_frames_keep_their_index_and_say_what_they_will_be(client):
    X, y = data()
    frame = pd.DataFrame(X, columns=NAMES, index=pd.Index(np.arange(200) * 3 + 7, name="id")).assign(y=y)
    parts = dd.from_pandas(frame, npartitions=4)
    far = DaskVBSVC(inference=TIGHT).fit(parts[NAMES], parts[["y"]])
    near = VBSVC(inference=TIGHT).fit(frame[NAMES], frame["y"])
    same(far, near)
    assert list(far.feature_names_in_) == NAMES
    labels, chances, scores = (f(parts[NAMES]) for f in (far.predict, far.predict_proba, far.decision_function))
    for lazy in (labels, chances, scores):
        pd.testing.assert_index_equal(lazy.compute().index, frame.index)
    assert list(chances.columns) == ["no", "yes"]
    assert dict(chances.dtypes) == dict(chances.compute().dtypes)
    assert scores.dtype == np.float64
    np.testing.assert_array_equal(labels.compute(), near.predict(frame[NAMES]))
    np.testing.assert_allclose(scores.compute(), near.decision_function(frame[NAMES]), atol=1e-6)


def test_chunks_of_unknown_size(client):
    X, y = data()
    kept = X[:, 0] > -1.0
    rows = in_chunks(X, (60, 90, 50))
    mask = in_chunks(kept, (60, 90, 50))
    far = DaskVBSVC(inference=TIGHT).fit(rows[mask], in_chunks(y, (60, 90, 50))[mask])
    same(far, VBSVC(inference=TIGHT).fit(X[kept], y[kept]))
    assert far.predict(rows[mask]).compute().shape == (kept.sum(),)


def test_a_partition_of_one_class_and_one_without_weight(client):
    X, y = data()
    order = np.argsort(y, kind="stable")
    X, y = X[order], y[order]
    s = np.ones(len(y))
    s[150:] = 0.0
    first = int((y == "no").sum())
    sizes = (first, 150 - first, 50)
    far = DaskVBSVC(inference=TIGHT).fit(*(in_chunks(one, sizes) for one in (X, y, s)))
    same(far, VBSVC(inference=TIGHT).fit(X, y, s))


def test_the_number_of_workers_and_a_killed_one_do_not_change_a_bit(client, alone, monkeypatch):
    X, y = data(n=400)
    rows = in_chunks(X, (100,) * 4), in_chunks(y, (100,) * 4)
    one = DaskVBSVC(client=alone).fit(*rows)
    passes, fold = [], Distributed.sum_stats
    monkeypatch.setattr(Distributed, "sum_stats", lambda self, row_pass: (passes.append(1), fold(self, row_pass))[1])
    two = DaskVBSVC(client=client).fit(*rows)
    passes.clear()
    killing = kill_during(client, passes, after=3)
    killed = DaskVBSVC(client=client).fit(*rows)
    killing.join()
    client.wait_for_workers(2, timeout=60)
    for found in (two, killed):
        np.testing.assert_array_equal(found.coef_, one.coef_)
        np.testing.assert_array_equal(found.coef_cov_, one.coef_cov_)
        np.testing.assert_array_equal(found.slopes_, one.slopes_)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_a_sampler_draws_the_same_for_any_number_of_workers(client, alone):
    X, y = data(n=90)
    rows = in_chunks(X, (30,) * 3), in_chunks(y, (30,) * 3)
    settings = {"inference": Gibbs(draws=4, tune=2, chains=2), "random_state": 3}
    one = DaskVBSVC(client=alone, **settings).fit(*rows)
    two = DaskVBSVC(client=client, **settings).fit(*rows)
    np.testing.assert_array_equal(one.fit_[0].outcome.coefficients, two.fit_[0].outcome.coefficients)


def test_to_local_knows_all_that_was_learned(client, tmp_path):
    X, y = data()
    far = DaskVBSVC().fit(in_chunks(X, (60, 140)), in_chunks(y, (60, 140)))
    local = far.to_local()
    assert type(local) is VBSVC
    np.testing.assert_array_equal(local.predict_proba(X), far.predict_proba(in_chunks(X, (200,))).compute())
    assert "robust" in " ".join(str(local.summary().attrs["note"]).split()).lower()
    local.save(tmp_path / "model")
    with pytest.raises(ValueError, match=r"needs? the training data"):
        local.summary(covariance="posterior")
    np.testing.assert_array_equal(far.predict(X), local.predict(X))  # rows in memory are answered at once


def test_pickles_and_clones(client):
    X, y = data()
    far = DaskVBSVC(client=client, prior=Normal(2.0)).fit(in_chunks(X, (200,)), in_chunks(y, (200,)))
    for other in (pickle.loads(pickle.dumps(far)), copy.deepcopy(far)):
        assert other.client is None
        np.testing.assert_array_equal(other.coef_, far.coef_)
    fresh = clone(far)
    assert fresh.client is client
    assert fresh.prior == Normal(2.0)
    with pytest.raises(NotFittedError):
        fresh.predict(in_chunks(X, (200,)))
    assert far.set_params(prior__variance=1.0).prior == Normal(1.0)


def test_two_fits_at_once(client):
    problems = [data(seed=seed) for seed in (1, 2)]
    alone = [DaskVBSVC(client=client).fit(in_chunks(X, (100, 100)), in_chunks(y, (100, 100))) for X, y in problems]
    found = {}

    def fit(k):
        X, y = problems[k]
        found[k] = DaskVBSVC(client=client).fit(in_chunks(X, (100, 100)), in_chunks(y, (100, 100)))

    threads = [threading.Thread(target=fit, args=(k,)) for k in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for k in range(2):
        np.testing.assert_array_equal(found[k].coef_, alone[k].coef_)


def test_ctrl_c_ends_a_fit_and_leaves_nothing_behind(client, monkeypatch):
    X, y = data()
    passes, fold = [], Distributed.sum_stats

    def interrupted(self, row_pass):
        passes.append(1)
        if len(passes) == 3:
            signal.raise_signal(signal.SIGINT)
        return fold(self, row_pass)

    monkeypatch.setattr(Distributed, "sum_stats", interrupted)
    far = DaskVBSVC()
    with pytest.raises(KeyboardInterrupt):
        far.fit(in_chunks(X, (100, 100)), in_chunks(y, (100, 100)))
    assert not far.converged_
    monkeypatch.undo()
    wait_until(lambda: not client.run_on_scheduler(_names))


def _names(dask_scheduler):
    return [key for key in dask_scheduler.tasks if "vbsvm" in str(key)]


def test_a_class_without_rows_is_told(client):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(300, 2)), (rng.random(300) < 0.05).astype(int)
    with pytest.warns(OneClassWarning, match="DaskVBSVC: class '1' predicted for no training observation"):
        DaskVBSVC().fit(in_chunks(X, (150, 150)), in_chunks(y, (150, 150)))


def two(values):
    return in_chunks(values, (100, 100))


def bad(X=None, y=None, s=None):
    good_X, good_y = data()
    return two(good_X) if X is None else X, two(good_y) if y is None else y, s


def spoiled(values, where, what):
    values = values.copy()
    values[where] = what
    return values


def test_what_is_wrong_is_said(client):
    X, y = data()
    ones, everywhere = np.ones(200), (slice(None), 1)
    text = dd.from_pandas(pd.DataFrame(X, columns=NAMES).assign(b="x"), npartitions=2)
    cases = [
        (TypeError, "X must be a dask array or data frame; got ndarray", bad(X=X)),
        (TypeError, "y must be a dask array or data frame; got ndarray", bad(y=y)),
        (TypeError, "sample_weight must be a dask array", bad(s=ones)),
        (ValueError, "X has 200 rows, and y has 199", bad(y=in_chunks(y[:-1], (199,)))),
        (
            ValueError,
            "X has 2 partitions, and y has 3: .*target=",
            bad(y=dd.from_pandas(pd.Series(y), npartitions=3)),
        ),
        (ValueError, "Partition [01]: X has 100 rows", bad(y=dd.from_dask_array(in_chunks(y, (110, 90))))),
        (ValueError, "only one class, yes", bad(y=two(np.full(200, "yes")))),
        (ValueError, "Partition 1: y contains NaN", bad(y=two(spoiled(ones, 150, np.nan)))),
        (ValueError, "Partition 1: .*infinity in column 'x2'", bad(X=two(spoiled(X, (160, 2), np.inf)))),
        (ValueError, "Column 'x1' has no value", bad(X=two(spoiled(X, everywhere, np.nan)))),
        (ValueError, "Partition 0: sample_weight is negative in row 3", bad(s=two(spoiled(ones, 3, -1.0)))),
        (ValueError, "no row of positive weight", bad(s=two(np.zeros(200)))),
        (ValueError, "Partition [01]: .*Column 'b'", bad(X=text)),
        (ValueError, "Expected 2D array", bad(X=two(y))),
    ]
    for kind, words, (rows, labels, weights) in cases:
        with pytest.raises(kind, match=words):
            DaskVBSVC().fit(rows, labels, weights)


def test_partitions_are_frames_with_the_columns_of_the_collection(client):
    """Columns are taken by their names: in another order they are the same."""
    X, y = data()
    frame = pd.DataFrame(X, columns=NAMES)
    labels = dd.from_pandas(pd.Series(y), npartitions=2)

    def joined(table, other):
        parts = [table[:100], other(table[100:])]
        return dd.from_map(lambda part: part, parts, meta=table[:0], enforce_metadata=False)

    for other, said in [
        (lambda part: part.drop(columns="b"), "Partition 1: it has no column 'b'; it has 'a', 'c'"),
        (lambda part: part.to_numpy(), "Partition 1: it is no data frame, but ndarray"),
    ]:
        with pytest.raises((TypeError, ValueError), match=said):
            DaskVBSVC().fit(joined(frame, other), labels)
        with pytest.raises((TypeError, ValueError), match=said):
            Model("y ~ a + b", joined(frame.assign(y=y), other))
    found = DaskVBSVC(inference=TIGHT).fit(joined(frame, lambda part: part[["c", "a", "b"]]), labels)
    same(found, VBSVC(inference=TIGHT).fit(frame, y))


def test_a_failed_fit_leaves_the_one_before(client):
    X, y = data()
    far = DaskVBSVC().fit(in_chunks(X, (200,)), in_chunks(y, (200,)))
    before = far.coef_
    with pytest.raises(ValueError, match="only one class"):
        far.fit(in_chunks(X, (200,)), in_chunks(np.full(200, "yes"), (200,)))
    np.testing.assert_array_equal(far.coef_, before)
    with pytest.raises(ValueError, match="expecting 3 features"):
        far.predict(in_chunks(X[:, :2], (200,)))


def test_bad_settings(client):
    rows = bad()
    for settings, words in (
        ({"client": 3}, "client must be a distributed.Client or None; got int"),
        ({"prior": 3}, "prior must be an object"),
        ({"group": 1.5}, "group must be the name or the number"),
        ({"inference": 3}, "inference must be an object"),
    ):
        with pytest.raises(TypeError, match=words):
            DaskVBSVC(**settings).fit(*rows)
    with pytest.raises(ValueError, match="group=9 is not a column number"):
        DaskVBSVC(group=9).fit(*rows)


@pytest.fixture
def files(tmp_path):
    """Parquet files of uneven size, of which Dask joins fewer or more as more or fewer columns are read."""
    X, y = data(900)
    frame = pd.DataFrame(np.column_stack([X, X**2, X**3]), columns=list("abcdefghi")).assign(y=y, s=np.arange(900) % 3)
    ends = np.cumsum([290, 10, 200, 1, 160, 7, 232])
    for k, (begin, end) in enumerate(pairwise([0, *ends])):
        frame[begin:end].to_parquet(tmp_path / f"part{k}.parquet", index=False)
    return frame, tmp_path


@pytest.mark.parametrize(("far", "near"), [(DaskVBSVC, VBSVC), (DaskVBLogistic, VBLogistic)])
def test_parquet_files_of_uneven_size(client, files, far, near):
    frame, folder = files
    table, inputs = dd.read_parquet(folder), list("abcdefghi")
    X, y, s = table[inputs], table["y"], table["s"]
    assert len(X.to_delayed()) != len(y.to_delayed())  # read apart they do not have the same rows
    expected = near(inference=TIGHT).fit(frame[inputs], frame["y"], frame["s"])
    pair = far(inference=TIGHT).fit(X, y, s)
    same(pair, expected)
    named = far(inference=TIGHT).fit(table, target="y", sample_weight="s")
    assert (named.coef_ == pair.coef_).all()
    assert named.feature_names_in_.tolist() == inputs
    assert named.score(table, target="y", sample_weight="s") == pair.score(X, y, s) > 0.5
    derived = far(inference=TIGHT).fit(X.map_partitions(lambda part: 2.0 * part), y, s)
    same(derived, near(inference=TIGHT).fit(2.0 * frame[inputs], frame["y"], frame["s"]))
    with pytest.raises(ValueError, match=r"Partition \d: X has \d+ rows, and y has \d+ labels"):
        far().fit(X, y[s > 0])


@pytest.mark.parametrize("way", ["values", "to_dask_array", "persist"])
def test_columns_that_are_divided_by_themselves_are_told_what_to_do(client, files, way):
    """Dask joins small files by the columns that are read, unless the frame is persisted as a whole."""
    frame, folder = files

    def changed(one):
        return one.values if way == "values" else getattr(one, way)()

    table, inputs = dd.read_parquet(folder), list("abcdefghi")
    table["y"], expected = (table["y"] == "yes").astype(int), (frame["y"] == "yes").astype(int)
    with pytest.raises(ValueError, match=r"partitions.*persist the frame first, and use its columns"):
        DaskVBSVC().fit(changed(table[inputs]), changed(table["y"]))
    held = table.persist()
    far = DaskVBSVC(inference=TIGHT).fit(changed(held[inputs]), changed(held["y"]))
    same(far, VBSVC(inference=TIGHT).fit(frame[inputs], expected))


def test_the_column_of_labels_is_named(client):
    frame = dd.from_pandas(pd.DataFrame({"a": [0.0, 1.0], "y": [0, 1]}), npartitions=1)
    for given, words in (
        ({}, "Give the labels as y, or the name of their column"),
        ({"y": frame["y"], "target": "y"}, "one of the two"),
        ({"target": "z"}, "X has no column 'z'"),
        ({"target": "y", "sample_weight": "s"}, "X has no column 's'"),
    ):
        with pytest.raises(ValueError, match=words):
            DaskVBSVC().fit(frame, **given)
    with pytest.raises(ValueError, match="X has no column 'y'"):
        DaskVBSVC().fit(in_chunks(np.eye(2), (2,)), target="y")


@contextmanager
def empty_cluster(limit):
    """A cluster without workers, and a list of what is said of them."""
    with workers(0, default=False) as client, config.set({"vbsvm.worker-timeout": limit}):
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            yield client
        assert [one.category for one in told if "has had no workers for 1 seconds" in str(one.message)] == [UserWarning]


def test_a_cluster_without_workers_is_told_and_not_waited_for_for_ever(monkeypatch):
    monkeypatch.setattr(cluster, "POLL_SECONDS", 1.0)
    with empty_cluster("3 s") as client, pytest.raises(TimeoutError, match=r"no workers for 3 seconds.*Start some"):
        DaskVBSVC(client=client).fit(*bad())


def test_the_limit_is_kept_and_nothing_is_left_to_complain(monkeypatch, caplog):
    """A limit that is no multiple of the time between looks; what was gathered ends with its futures."""
    monkeypatch.setattr(cluster, "POLL_SECONDS", 1.0)
    with empty_cluster(1.4) as client:
        with pytest.raises(TimeoutError, match=r"no workers for 1\.4 seconds"):
            DaskVBSVC(client=client).fit(*bad())
        wait_until(lambda: not client.futures)
        client.sync(asyncio.sleep, 0.1)
        gc.collect()
    assert "never retrieved" not in caplog.text


@pytest.mark.parametrize("limit", ["abc", -3, 0, [1]])
def test_a_limit_that_is_no_time_is_refused(client, limit):
    with config.set({"vbsvm.worker-timeout": limit}), pytest.raises(ValueError, match="positive number of seconds"):
        DaskVBSVC().fit(*bad())


@pytest.mark.parametrize("lost", ["x", "y", "all"])
def test_a_partition_that_is_not_what_the_collection_says_is_named(client, lost):
    """Dask takes columns from it before any function of ours sees it."""
    whole = table()
    odd = "no frame" if lost == "all" else whole.drop(columns=lost)
    parts = [dask.delayed(one) for one in (whole, whole, odd, whole)]
    far = dd.from_delayed(parts, meta=whole.iloc[:0], verify_meta=False)
    named = "" if lost == "all" else rf"it lacks a column: .*{lost}.*"
    fitted = DaskVBSVC().fit(dd.from_pandas(whole[["x", "z", "y"]], npartitions=2), target="y")
    for call in (
        lambda: DaskVBSVC().fit(far[["x", "z"]], far["y"]),
        lambda: DaskVBSVC().fit(far[["x", "z", "y"]], target="y"),
        lambda: fitted.score(far[["x", "z"]], far["y"]),
    ):
        with pytest.raises(ValueError, match=rf"Partition 2 can't be computed \({named}.*Every partition must be a"):
            call()


def test_a_truncated_file_is_told_with_its_partition(client, tmp_path):
    for k in range(4):
        table().to_parquet(tmp_path / f"{k}.parquet")
    far = dd.read_parquet(tmp_path, split_row_groups=True)
    content = (tmp_path / "2.parquet").read_bytes()
    (tmp_path / "2.parquet").write_bytes(content[: len(content) // 2])
    for call in (lambda: DaskVBSVC().fit(far[["x", "z"]], far["y"]), lambda: Model("y ~ x", far)):
        with pytest.raises(ValueError, match=r"Partition \d can't be computed .*every file .* must be complete"):
            call()


def test_a_fit_goes_on_when_workers_come(monkeypatch):
    monkeypatch.setattr(cluster, "POLL_SECONDS", 1.0)
    X, y = data()
    with empty_cluster(None) as client:
        threading.Timer(1.5, lambda: client.cluster.scale(1)).start()
        far = DaskVBSVC(client=client, inference=TIGHT).fit(in_chunks(X, (100, 100)), in_chunks(y, (100, 100)))
    same(far, VBSVC(inference=TIGHT).fit(X, y))


def test_workers_that_vanish_end_a_fit(monkeypatch):
    monkeypatch.setattr(cluster, "POLL_SECONDS", 1.0)
    passes, fold = [], Distributed.sum_stats

    def gone(source, row_pass):
        passes.append(1)
        if len(passes) == 3:
            client.cluster.scale(0)
            wait_until(lambda: not client.scheduler_info()["workers"])
        return fold(source, row_pass)

    monkeypatch.setattr(Distributed, "sum_stats", gone)
    with empty_cluster(3) as client:
        client.cluster.scale(1)
        client.wait_for_workers(1, timeout=60)
        with pytest.raises(TimeoutError, match="no workers for 3 seconds"):
            DaskVBSVC(client=client).fit(*bad())
    assert len(passes) == 3


def test_without_a_client(monkeypatch):
    def none():
        raise ValueError("No clients found")

    monkeypatch.setattr(distributed, "default_client", none)
    with pytest.raises(ValueError, match="There is no Dask client: make one"):
        DaskVBSVC().fit(*bad())


def test_rows_that_are_left_out_of_calibration_hardly_matter(client, monkeypatch):
    """Of very many rows, only the scores of every k-th block are fetched."""
    from vbsvm.results import training_rows

    X, y = data(n=3000)
    rows = in_chunks(X, (1000,) * 3), in_chunks(y, (1000,) * 3)
    whole = DaskVBSVC().fit(*rows).slopes_
    monkeypatch.setattr(training_rows, "MAX_LEFT_OUT", 1000)
    thinned = DaskVBSVC().fit(*rows).slopes_
    assert thinned != pytest.approx(whole, rel=1e-12)
    np.testing.assert_allclose(thinned, whole, rtol=0.3)


def table(n=150, seed=0, missing=0.0):
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame({"x": rng.normal(size=n), "z": rng.normal(size=n), "k": rng.choice(["u", "v", "w"], n)})
    frame["g"], frame["h"], frame["s"] = rng.integers(0, 8, n), rng.integers(0, 3, n), rng.integers(0, 3, n) + 0.0
    score = frame["x"] - frame["z"] + (frame["k"] == "u") + 0.3 * frame["g"] - 1
    frame["y"] = np.where(score + rng.logistic(size=n) > 0, "yes", "no")
    for name in ("x", "k") if missing else ():
        frame[name] = frame[name].mask(rng.random(n) < missing)
    return frame


@pytest.mark.parametrize("cuts", [(0, 150), (0, 0, 60, 60, 61, 150), (0, 50, 100, 150)])
def test_missing_categories_in_any_cut_of_the_rows(client, cuts):
    """The first rows are of one class and lack no category."""
    frame = table().sort_values("y", ignore_index=True)
    frame.loc[61:, ["k", "x"]] = frame.loc[61:, ["k", "x"]].mask(np.random.default_rng(0).random((89, 2)) < 0.3)
    assert frame["y"][:50].nunique() == 1
    parts = [dd.from_pandas(frame.iloc[begin:end], npartitions=1) for begin, end in pairwise(cuts)]
    far, inference = dd.concat(parts, interleave_partitions=True), Variational(tol=1e-12, max_iter=5000)
    one, two = Model("y ~ z + x + k", far).fit(inference), Model("y ~ z + x + k", frame).fit(inference)
    assert one.elbo == pytest.approx(two.elbo, abs=1e-8)
    np.testing.assert_allclose(one.coef, two.coef, atol=1e-8)
    lazy = one.predict_proba(far)
    assert not isinstance(lazy, pd.DataFrame)
    expected = pd.DataFrame(two.predict_proba(frame), frame.index, columns=two.classes)
    pd.testing.assert_frame_equal(lazy.compute(), expected, atol=1e-5)
    assert (one.predict(far).compute() == one.predict(frame)).all()
    np.testing.assert_allclose(one.decision_function(far).compute(), one.decision_function(frame))
    np.testing.assert_allclose(np.exp(one.predict_log_proba(far).compute()), lazy.compute())
    with pytest.raises(TypeError, match="got a dask array"):
        one.predict(far.to_dask_array())


def test_tables_suggest_only_what_can_be_had(client):
    frame = table()
    far, near = (
        Model("y ~ x + z", dd.from_pandas(frame, npartitions=2), likelihood="hinge").fit(),
        Model("y ~ x + z", frame, likelihood="hinge").fit(),
    )
    assert "covariance='posterior'" in near.summary().attrs["note"]
    assert "covariance='posterior'" not in far.summary().attrs["note"]
    with pytest.raises(ValueError, match=r"needs? the training data"):
        far.summary(covariance="posterior")


def test_a_formula_is_logistic_unless_it_is_said(client):
    frame = dd.from_pandas(table(), npartitions=2)
    default, logistic, hinge = (
        Model("y ~ x + z", frame, **asked).fit() for asked in ({}, {"likelihood": "logistic"}, {"likelihood": "hinge"})
    )
    np.testing.assert_array_equal(default.coef, logistic.coef)
    assert str(default).startswith("Logistic regression: y ~ x + z.")
    assert str(hinge).startswith("Support vector machine: y ~ x + z.")


def test_what_is_wrong_with_a_formula_is_said(client):
    frame = table()
    parts = dd.from_pandas(frame, npartitions=3)
    infinite = dd.from_pandas(frame.assign(x=spoiled(frame["x"].to_numpy(), 120, np.inf)), npartitions=3)
    one, light = (dd.from_pandas(frame.assign(**other), npartitions=2) for other in ({"y": "yes"}, {"s": 0.0}))
    cases = [
        (ValueError, "must be a column", "y ~ unknown", parts, {}),
        (TypeError, "name of the column of weights", "y ~ x", parts, {"weights": np.ones(150)}),
        (ValueError, "only one class", "y ~ x", one, {}),
        (ValueError, "Partition 2", "y ~ x", infinite, {}),
        (ValueError, "no rows to fit", "y ~ x", light, {"weights": "s"}),
        (TypeError, "named columns; got a dask array", "y ~ x", two(np.ones((200, 2))), {}),
    ]
    for kind, words, text, given, settings in cases:
        with pytest.raises(kind, match=words):
            Model(text, given, **settings)


def test_what_needs_rows_in_memory_is_refused(client):
    model = Model("y ~ x + z", dd.from_pandas(table(missing=0.1), npartitions=2))
    with pytest.raises(TypeError, match="are in a cluster"):
        model.sensitivity([0.0, 1.0])


def with_categories(n=200, missing=0.0):
    X, y = data(n)
    rng = np.random.default_rng(5)
    frame = pd.DataFrame(X, columns=NAMES).assign(
        city=rng.choice(["Bern", "Genf", "Uri"], n),
        size=pd.Categorical(rng.choice(["s", "l"], n)),
        ward=rng.integers(0, 6, n),
        y=y,
    )
    frame["city"] = frame["city"].mask(rng.random(n) < missing)
    return frame


@pytest.mark.parametrize("missing", [0.0, 0.1])
@pytest.mark.parametrize("group", [None, "ward"])
def test_text_and_categories_in_a_cluster_are_encoded_as_in_memory(client, missing, group, tmp_path):
    frame = with_categories(missing=missing).drop(columns=[] if group else "ward")
    X = frame.drop(columns="y")
    settings = {"categories": "one-hot", "inference": TIGHT, "group": group}
    near = VBLogistic(**settings).fit(X, frame["y"])
    far = DaskVBLogistic(**settings).fit(dd.from_pandas(frame, npartitions=4), target="y")
    assert far.summary().index.tolist() == near.summary().index.tolist()
    assert {name: list(levels) for name, levels in far.levels_.items()} == {
        name: list(levels) for name, levels in near.levels_.items()
    }
    np.testing.assert_allclose(far.coef_, near.coef_, rtol=1e-5, atol=1e-7)
    proba = far.predict_proba(dd.from_pandas(X, npartitions=3)).compute()
    np.testing.assert_allclose(proba, near.predict_proba(X), rtol=1e-5)
    far.save(tmp_path / "model")
    np.testing.assert_allclose(load(tmp_path / "model").predict_proba(X), proba)


def test_a_fit_in_a_cluster_shows_what_one_in_memory_shows(client, tmp_path):
    frame = with_categories()
    X = frame.drop(columns=["y", "ward"])
    near = VBLogistic(categories="one-hot", inference=TIGHT).fit(X, frame["y"])
    far = DaskVBLogistic(categories="one-hot", inference=TIGHT)
    with pytest.raises(NotFittedError):
        far.summary()
    far.fit(dd.from_pandas(X.assign(y=frame["y"]), npartitions=3), target="y")
    effects = far.effects("city", data=X), near.effects("city", data=X)
    for table, expected in ((far.summary(), near.summary()), effects):
        pd.testing.assert_frame_equal(table[["estimate"]], expected[["estimate"]], rtol=1e-4)
        assert table.attrs["note"]
    assert len(far.slopes("a", data=X)) == len(near.slopes("a", data=X))
    assert len(far.contrasts("city", data=X)) == len(near.contrasts("city", data=X))
    with pytest.raises(ValueError, match="give rows with data="):
        far.effects("a")
    with pytest.raises(TypeError, match=r"compute\(\)"):
        far.effects("a", data=dd.from_pandas(X, npartitions=3))
    page = far.report(tmp_path / "report.html", X.head(80), frame["y"].head(80))
    assert "city[Uri]" in page.read_text()
    assert far.tidy().columns[0] == "term"
    assert far.glance()["converged"].all()
    assert len(far.predictive(X.head())) == len(far.predict_interval(X.head())) == 5


def test_a_level_of_another_kind_in_one_partition_is_refused(client):
    frame = pd.DataFrame({"a": np.arange(40.0), "k": pd.Series(["u", "v"] * 10 + [1, 2] * 10, dtype=object)})
    with config.set({"dataframe.convert-string": False}):
        table = dd.from_pandas(frame.assign(y=np.arange(40) % 3 > 0), npartitions=2)
        with pytest.raises((ValueError, TypeError), match=r"^Partition 1: The labels in column 'k' were text"):
            DaskVBSVC(categories="one-hot").fit(table, target="y")
    with pytest.raises(ValueError, match="categories must be"):
        DaskVBSVC(categories="dummy").fit(table, target="y")
