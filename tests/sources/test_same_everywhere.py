"""The same rows give the same fit wherever they lie: every kind of model in memory, sparse, in files, in a cluster.

Rows are cut so that one part is empty, one has a single row, and the first has one class and misses nothing.
"""

from functools import cache
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

from clusters import workers
from vbsvm import VBSVC, Files, GaussianImputation, Joint, LaplaceZero, Model, NotAtRandom, Variational, VBLogistic
from vbsvm.dask import DaskVBLogistic, DaskVBSVC
from vbsvm.sources import rows

dd = pytest.importorskip("dask.dataframe")

TIGHT = Variational(tol=1e-12, max_iter=5000)
CLOSE = 1e-8
CUTS = (0, 40, 40, 41, 100, 150)
INPUTS = ["x", "z", "v"]
LOGISTIC = {"likelihood": "logistic"}
ADAPTING, ALONE = ({"imputation": GaussianImputation(labels=labels)} for labels in ("likelihood", "none"))


@pytest.fixture(scope="module")
def client():
    with workers(2) as found:
        yield found


@cache
def table(missing=False, n=150):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(np.round(rng.normal(size=(n, 3)), 1) * [1.0, 10.0, 1e-3], columns=INPUTS)
    frame["k"], frame["g"], frame["h"] = rng.choice(["u", "v", "t"], n), rng.integers(0, 8, n), rng.integers(0, 3, n)
    frame["w"] = rng.integers(0, 3, n).astype(float)
    score = frame["x"] - frame["z"] / 10 + (frame["k"] == "u") + frame["g"] / 4 - 1 + 1.5 * rng.logistic(size=n)
    frame["y"], frame["three"] = np.where(score > 0, "yes", "no"), np.digitize(score, [-1.0, 1.0])
    frame = frame.sort_values("y", ignore_index=True)
    assert frame["y"][: CUTS[1]].nunique() == 1
    if missing:
        later = frame.loc[CUTS[2] :, ["x", "k"]]
        frame.loc[CUTS[2] :, ["x", "k"]] = later.mask(rng.random(later.shape) < 0.15)
    return frame


def in_files(frame, folder):
    for number, (begin, end) in enumerate(pairwise(CUTS)):
        frame.iloc[begin:end].to_parquet(folder / f"{number}.parquet", row_group_size=32)
    return Files(str(folder / "*.parquet"), cache=folder / "cache")


def in_parts(frame):
    parts = [dd.from_pandas(frame.iloc[begin:end], npartitions=1) for begin, end in pairwise(CUTS)]
    return dd.concat(parts, interleave_partitions=True)


def assert_same(found, whole):
    assert found.outcome.ending == whole.outcome.ending
    assert found.outcome.integrated == whole.outcome.integrated
    assert found.elbo == pytest.approx(whole.elbo, abs=CLOSE)
    means = (np.asarray(fit.outcome.state.coefficients.mean) for fit in (found, whole))
    np.testing.assert_allclose(*means, rtol=0, atol=CLOSE)


MODELS = {
    "columns": ("y ~ x * z + k", False, {}),
    "weights": ("y ~ x + z", False, {"weights": "w"}),
    "splines": ("y ~ s(x) + scale(z)", False, {}),
    "groups": ("y ~ x + (1 | g)", False, {}),
    "slopes": ("y ~ x + (x | g)", False, {}),
    "crossed": ("y ~ x + (1 | g) + (1 | h)", False, {"weights": "w"}),
    "gates": ("y ~ x + z + v + k", False, {"priors": {"fixed": LaplaceZero()}}),
    "missing": ("y ~ x * z", True, {}),
    "missing, adapting": ("y ~ x * z + k", True, ADAPTING),
    "missing, without labels": ("y ~ x + k", True, ALONE),
    "missing, groups": ("y ~ x + z + (1 | g)", True, {}),
    "missing, gates": ("y ~ x + z + k", True, {"priors": {"fixed": LaplaceZero()}}),
    "not at random": ("y ~ x + z", True, {"imputation": GaussianImputation(mechanism=NotAtRandom())}),
    "categories": ("y ~ x * z + k", True, {}),
    "categories, groups": ("y ~ z + k + (1 | g)", True, {"weights": "w"}),
    "dropped": ("y ~ x * z + k", True, {"missing": "drop"}),
    "logistic": ("y ~ x * z + k", False, LOGISTIC),
    "logistic, integrated groups": ("y ~ x + (1 | g)", False, LOGISTIC),
    "logistic, slopes": ("y ~ x + (x | g)", False, LOGISTIC),
    "logistic, gates": ("y ~ x + z + k", False, {"priors": {"fixed": LaplaceZero()}, **LOGISTIC}),
    "logistic, missing": ("y ~ x + k", True, LOGISTIC),
    "logistic, missing, adapting": ("y ~ x + k", True, {**ADAPTING, **LOGISTIC}),
}


@cache
def model_in_memory(name):
    formula, missing, settings = MODELS[name]
    model = Model(formula, table(missing), **settings)
    return repr(model), model.fit(TIGHT)


@pytest.mark.parametrize("place", ["files", "cluster"])
@pytest.mark.parametrize("name", MODELS)
def test_models(place, name, client, tmp_path, monkeypatch):
    formula, missing, settings = MODELS[name]
    frame, (told, whole) = table(missing), model_in_memory(name)
    # so that files are climbed in another way
    monkeypatch.setattr(rows.Pages, "can_cache", lambda self, n_rows: False)
    model = Model(formula, in_parts(frame) if place == "cluster" else in_files(frame, tmp_path), **settings)
    assert repr(model) == told
    found = model.fit(TIGHT)
    assert_same(found, whole)
    np.testing.assert_allclose(found.predict_proba(frame), whole.predict_proba(frame), atol=1e-6)
    pd.testing.assert_frame_equal(found.missing_summary(), whole.missing_summary())


CLASSIFIERS = {
    "columns": (VBSVC, INPUTS, {}, "y", None),
    "weights": (VBSVC, INPUTS, {"class_weight": "balanced"}, "y", "w"),
    "gates": (VBSVC, INPUTS, {"prior": LaplaceZero()}, "y", None),
    "joint gates": (VBSVC, INPUTS, {"prior": LaplaceZero(gates=Joint())}, "y", None),
    "several classes": (VBSVC, INPUTS, {}, "three", "w"),
    "exact bound": (VBSVC, INPUTS, {"inference": Variational(tol=1e-12, bound="exact")}, "y", None),
    "as they are": (VBSVC, INPUTS[:2], {"standardize": False, "fit_intercept": False}, "y", None),
    "group": (VBSVC, [*INPUTS, "g"], {"group": "g"}, "y", None),
    "logistic": (VBLogistic, INPUTS, {}, "three", None),
}


@pytest.mark.parametrize("place", ["sparse", "files", "cluster"])
@pytest.mark.parametrize("name", CLASSIFIERS)
def test_classifiers(place, name, client, tmp_path):
    kind, columns, settings, target, weights = CLASSIFIERS[name]
    if place == "sparse" and "g" in columns:
        pytest.skip("groups are columns of dense tables")
    frame, settings = table(), {"inference": TIGHT} | settings
    s = None if weights is None else frame[weights]
    whole = kind(**settings).fit(frame[columns], frame[target], s)
    if place == "sparse":
        found = kind(**settings).fit(sp.csr_array(frame[columns].to_numpy()), frame[target], s)
    elif place == "files":
        found = kind(**settings).fit_files(in_files(frame, tmp_path), target, features=columns, weights=weights)
    else:
        parts, far = in_parts(frame), {VBSVC: DaskVBSVC, VBLogistic: DaskVBLogistic}[kind]
        found = far(**settings).fit(parts[columns], parts[target], None if weights is None else parts[weights])
    assert list(found.classes_) == list(whole.classes_)
    for one, other in zip(found.fit_, whole.fit_, strict=True):
        assert_same(one, other)
