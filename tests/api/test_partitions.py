"""Rows anywhere: a class from outside the package that says where partitions are gives the fit of all rows."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import pandas as pd
import pytest

from vbsvm import VBSVC, GaussianImputation, Model, Normal, Ridge, Variational
from vbsvm.api.data.formula_reader import FormulaReader
from vbsvm.api.data.partitions import Partition, Partitions
from vbsvm.api.data.table_reader import RawTable, TableReader
from vbsvm.api.task import build_tasks, fit_all
from vbsvm.design.formula import syntax
from vbsvm.model.likelihoods.hinge import HINGE
from vbsvm.model.likelihoods.logistic import LOGISTIC

TIGHT = Variational(tol=1e-11)
INPUTS = ["x", "z"]


@dataclass(frozen=True, eq=False)
class Frames(Partitions):
    """A list of frames; of tables, each with its labels."""

    frames: list

    @property
    def names(self):
        return list(self.frames[0].columns)

    def parts(self, columns=None) -> Iterator[Partition]:
        first = 0
        for number, frame in enumerate(self.frames):
            yield Partition(self.raw(frame), first, lambda number=number: in_frame(number))
            first += len(frame)

    def raw(self, frame):
        return frame


class Tables(Frames):
    """The same, of which two columns are inputs, one is the group, and one the labels."""

    def raw(self, frame):
        return RawTable(frame[[*INPUTS, "g"]], frame["y"], frame["w"])


@contextmanager
def in_frame(number):
    try:
        yield
    except ValueError as error:
        raise ValueError(f"Frame {number}: {error}") from None


def rows(n=240, seed=0):
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(rng.normal(size=(n, 2)), columns=INPUTS)
    frame["h"] = rng.choice(["a", "b", "c"], n)
    frame["g"] = rng.integers(8, size=n)
    frame["w"] = rng.integers(3, size=n).astype(float)
    score = frame["x"] + (frame["h"] == "b") + 0.3 * frame["g"] - 1 + rng.logistic(size=n)
    return frame.assign(y=np.where(score > 0, "yes", "no"))


def cut(frame, places=(20, 21, 150)):
    return [frame.iloc[a:b] for a, b in zip((0, *places), (*places, len(frame)), strict=True)]


def fitted(text, partitions, **settings):
    reader = FormulaReader(
        syntax.read(text, partitions.names, "w"), "w", "infer", None, {}, GaussianImputation(), True, False, **settings
    )
    (task,) = build_tasks(partitions.read(reader), GaussianImputation(), LOGISTIC)
    return fit_all([task], TIGHT, seed=0)[0]


@pytest.mark.parametrize("text", ["y ~ x + h + (x | g)", "y ~ poly(x, 2) + s(z)", "y ~ x * h"])
def test_a_formula_over_a_list_of_frames_is_that_over_one(text):
    frame = rows()
    expected = Model(text, frame, weights="w").fit(TIGHT)
    found = fitted(text, Frames(cut(frame)))
    np.testing.assert_allclose(found.bounds[-1], expected.bounds[-1], rtol=1e-9)
    np.testing.assert_allclose(found.predict_proba(frame), expected.predict_proba(frame), rtol=1e-5)


def test_missing_inputs_and_categories_of_some_frames():
    frame = rows()
    frame.loc[160:175, "x"] = np.nan
    frame.loc[170:190, "h"] = None
    expected = Model("y ~ x + h + (1 | g)", frame, weights="w").fit(TIGHT)
    found = fitted("y ~ x + h + (1 | g)", Frames(cut(frame)))
    np.testing.assert_allclose(found.bounds[-1], expected.bounds[-1], rtol=1e-8)


def test_a_table_in_parts_is_the_whole_table():
    frame = rows()
    settings = {"prior": Ridge(), "group": "g", "class_weight": "balanced"}
    expected = VBSVC(inference=TIGHT, **settings).fit(frame[[*INPUTS, "g"]], frame["y"], frame["w"])
    reader = TableReader(tuple(INPUTS), **settings)
    (task,) = build_tasks(Tables(cut(frame)).read(reader), GaussianImputation(), HINGE)
    np.testing.assert_allclose(fit_all([task], TIGHT, seed=0)[0].bounds[-1], expected.elbo_, rtol=1e-9)


def test_errors_name_the_partition_and_the_row():
    frame = rows()
    frame.loc[22, "x"] = np.inf
    frame["w"] = 1.0
    with pytest.raises(ValueError, match=r"Frame 2: .*'x' \(first in row 1\)"):
        Tables(cut(frame)).read(TableReader(tuple(INPUTS), Normal(1.0), "g"))


def test_what_needs_all_rows_in_memory_is_refused():
    frame = rows()
    frame.loc[30, "z"] = np.nan
    with pytest.raises(ValueError, match=r"Frame 2: .*'z'"):
        fitted("y ~ s(z)", Frames(cut(frame)))
    drawn = GaussianImputation(transform="rank")
    with pytest.raises(ValueError, match="needs rows in memory"):
        FormulaReader(syntax.read("y ~ x", list(frame)), None, "infer", None, {}, drawn, True, False)
