"""Missing inputs in products: what a unit of them adds is read off where the factor is not 0."""

import re

import numpy as np
import pandas as pd
import pytest

from vbsvm import Fit, GaussianImputation, Model, Normal, Ridge, Variational

HELD = {"fixed": Ridge()}
PAPERS = Variational(bound="paper")


@pytest.fixture(scope="module")
def whole():
    rng = np.random.default_rng(0)
    x = rng.uniform(0.1, 1.0, 60)
    x[5] = 1.0  # furthest from 0, and its log is 0
    frame = pd.DataFrame({"x": x, "z": rng.normal(size=60), "k": rng.choice(["u", "v"], 60), "g": np.arange(60) % 5})
    return frame.assign(y=(np.log(x) + frame["z"] + rng.normal(size=60) + 1 > 0).astype(int), **{"log x": np.log(x)})


def without(frame, column, *rows):
    return frame.assign(**{column: frame[column].where(~frame.index.isin(rows))})


@pytest.mark.parametrize(
    ("by", "same"),
    [
        ("y ~ log(x)*z", "y ~ `log x`*z"),
        ("y ~ z + log(x):z", "y ~ z + `log x`:z"),
        ("y ~ log(x) + (log(x) | g)", "y ~ `log x` + (`log x` | g)"),
    ],
)
def test_a_factor_that_is_0_at_the_largest_value_may_be_missing(whole, by, same):
    for rows in ((2, 7), ()):
        known, expected = without(whole, "x", *rows), without(whole, "log x", *rows)
        if not rows and by == "y ~ z + log(x):z":
            continue  # it enters by products alone: it must have been missing in fit
        found = Model(by, known, HELD).fit().decision_function(without(whole, "x", 2, 7))
        np.testing.assert_allclose(
            found, Model(same, expected, HELD).fit().decision_function(without(whole, "log x", 2, 7)), rtol=1e-6
        )


def test_a_factor_of_two_columns_is_missing_where_the_other_is_0(whole):
    frame = whole.assign(w=np.where(whole.index == 4, 0.0, 1.0 + whole["x"]))
    fit = Model("y ~ I(x * w)*z", without(frame, "x", 4), HELD).fit()
    assert np.isfinite(fit.decision_function(without(frame, "x", 4))).all()


@pytest.mark.parametrize("value", [0.0, 3.0])
def test_a_constant_factor_may_be_missing(whole, value):
    frame = whole.assign(c=value)
    plain = Model("y ~ z", whole, {"fixed": Normal(1.0)}).fit(PAPERS).decision_function(whole)
    for known in (frame, without(frame, "c", 3)):
        found = Model("y ~ c + z + c:z", known, {"z": Normal(1.0), "c": Normal(1e-9), "c:z": Normal(1e-9)}).fit(PAPERS)
        np.testing.assert_allclose(found.decision_function(without(frame, "c", 3)), plain, rtol=1e-3, atol=1e-3)


def test_an_expression_that_is_always_0_is_refused_where_it_is_missing(whole):
    frame = whole.assign(x=1.0)
    with pytest.raises(ValueError, match=re.escape("row 3, and enters by products with log(x), which is 0 in every")):
        Model("y ~ log(x)*z", without(frame, "x", 3), HELD, imputation=GaussianImputation(labels="likelihood"))


def test_a_row_without_a_finite_score_has_no_class(whole):
    fit = Model("y ~ x*z", whole, HELD).fit()
    broken = Fit(fit.spec, fit.plan, fit.outcome, fit.classes, fit.reader)  # without a distribution of the inputs
    far = whole.assign(z=whole["z"].where(whole.index != 4, 1e308), x=whole["x"].where(whole.index != 4, 1.7))
    for ask in (Fit.predict, Fit.predict_proba, Fit.decision_function):
        with pytest.raises(ValueError, match=r"The decision value of row 2 is nan: it has missing values"):
            ask(broken, without(whole, "x", 2))
        with pytest.raises(ValueError, match=r"The decision value of row 4 is -?(inf|nan): its values are too far"):
            ask(fit, far)
    with pytest.raises(ValueError, match="The decision value of row 2 is nan"):
        broken.decision_function(without(whole, "x", 2), return_std=True)


def test_rows_are_numbered_as_given_where_categories_are_missing(whole):
    frame = whole.assign(q=whole["k"])
    fit = Model("y ~ log(x)*z + k + q + (1 | g)", frame, HELD).fit()
    lost = without(without(frame, "k", 0, 1, 2), "q", 0)
    with pytest.raises(ValueError, match=re.escape("log(x) is -inf in row 5")):
        fit.predict(lost.assign(x=lost["x"].where(lost.index != 5, 0.0)))
    with pytest.raises(ValueError, match="The group of row 6 in 'g'"):
        fit.predict(lost.assign(g=lost["g"].where(lost.index != 6, 77)), groups="error")
    with pytest.raises(ValueError, match="Column 'q' contains 'w' in row 7"):
        fit.predict(lost.assign(q=lost["q"].where(lost.index != 7, "w")))
    with pytest.raises(ValueError, match="Row 8 has missing values in both factors"):
        fit.predict(without(without(lost, "x", 8), "z", 8))
