"""New data of a formula: columns come in other types than in fit, and mean the same."""

import numpy as np
import pandas as pd
import pytest

from vbsvm import Model, load


@pytest.fixture(scope="module")
def numbered():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"x": rng.normal(size=60), "h": rng.choice([1, 2, 3], 60), "g": rng.integers(0, 6, 60)})
    return frame.assign(y=(frame["x"] + 2 * (frame["h"] == 2) + rng.normal(size=60) > 0.5).astype(int))


@pytest.mark.parametrize("text", ["y ~ x + h", "y ~ x*h", "y ~ x + (h | g)", "y ~ h + (x | h)", "y ~ x + (1 | h)"])
def test_numbers_are_the_categories_that_they_were_in_fit(numbered, tmp_path, text):
    labelled = numbered.astype({"h": "category"})
    fit = Model(text, labelled).fit()
    fit.save(tmp_path / "fit")
    expected = fit.decision_function(labelled)
    for of_fit in (fit, load(tmp_path / "fit")):
        for given in (numbered, numbered.astype({"h": float}), numbered.astype({"h": object})):
            np.testing.assert_array_equal(of_fit.decision_function(given), expected)


def test_categories_are_the_numbers_that_they_were_in_fit(numbered):
    fit = Model("y ~ x + C(h)", numbered).fit()
    labelled = numbered.astype({"h": "category"})
    np.testing.assert_array_equal(fit.decision_function(labelled), fit.decision_function(numbered))
    holes = numbered["h"].where(numbered.index > 3)
    np.testing.assert_array_equal(
        fit.decision_function(numbered.assign(h=holes.astype("category"))),
        fit.decision_function(numbered.assign(h=holes)),
    )
    with pytest.raises(ValueError, match="Column 'h' held numbers in fit, and holds '2' now"):
        fit.predict(numbered.assign(h=numbered["h"].astype(str).astype("category")))


def test_numbers_that_were_no_categories_in_fit_are_refused(numbered):
    fit = Model("y ~ x + h", numbered.astype({"h": "category"})).fit()
    with pytest.raises(ValueError, match="Column 'h' holds '7' in row 4, a category that was not there in fit"):
        fit.predict(numbered.assign(h=numbered["h"].where(numbered.index != 4, 7)))
    fit = Model("y ~ x + h", numbered.astype({"h": str})).fit()
    with pytest.raises(ValueError, match=r"Column 'h' holds '.' in row 0, a category that was not there in fit"):
        fit.predict(numbered)


@pytest.mark.parametrize("dtype", [str, "category"])
def test_a_category_that_is_missing_in_every_row_may_come_as_numbers(numbered, dtype):
    fit = Model("y ~ x + h", numbered.astype({"h": dtype})).fit()
    expected = fit.decision_function(numbered.assign(h=None))
    np.testing.assert_array_equal(fit.decision_function(numbered.assign(h=np.nan)), expected)
    assert np.isfinite(expected).all()
