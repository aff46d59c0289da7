"""Names that could be taken for other things: columns, levels, terms and tables stay what they are."""

import re

import numpy as np
import pandas as pd
import pytest

from vbsvm import Model, Ridge, load
from vbsvm.design.guard import FormulaError

HELD = {"fixed": Ridge()}


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({name: rng.normal(size=80) for name in ("a", "b", "a:b", "plain")})
    frame["k"], frame["g"] = rng.choice(["u", "v", "w"], 80), rng.integers(0, 8, 80)
    return frame.assign(plain=frame["a:b"], y=(frame["a"] + rng.normal(size=80) > 0).astype(int))


def test_a_level_that_a_formula_leaves_out_is_refused(data):
    row = int(np.argmax(data["k"] == "w"))
    expected = f"C(k, levels=['u', 'v']) leaves out 'w', which column 'k' holds in row {row}"
    for text in ("y ~ C(k, levels=['u', 'v'])", "y ~ a + (C(k, levels=['u', 'v']) | g)"):
        with pytest.raises(FormulaError, match=re.escape(expected)):
            Model(text, data)
    fit = Model("y ~ C(k, levels=['v', 'u', 'w', 'x'])", data, HELD).fit()
    assert np.isfinite(fit.decision_function(data)).all()


@pytest.mark.parametrize("text", ["y ~ a*b + ({0} | g)", "y ~ a + (0 + a:b | k) + (0 + {0} | g)", "y ~ a*b + s({0})"])
def test_a_column_called_like_an_interaction_is_itself(data, tmp_path, text):
    fit, expected = (Model(text.format(name), data, HELD).fit() for name in ("`a:b`", "plain"))
    np.testing.assert_allclose(fit.decision_function(data), expected.decision_function(data), rtol=1e-6, atol=1e-8)
    fit.save(tmp_path / "fit")
    np.testing.assert_array_equal(load(tmp_path / "fit").decision_function(data), fit.decision_function(data))


def test_two_fixed_effects_of_one_name_are_refused(data):
    with pytest.raises(FormulaError, match="Two fixed effects are called a:b: rename the column"):
        Model("y ~ a*b + `a:b`", data)


@pytest.mark.parametrize("text", ["y ~ s(a) + s(a, k=8)", "y ~ a + s(a) + s(`a`, k=8)"])
def test_two_curves_of_the_same_values_are_refused(data, text):
    with pytest.raises(FormulaError, match=r"s\(a\) and s\(`?a`?, k=8\) are curves of the same values: keep one"):
        Model(text, data)
