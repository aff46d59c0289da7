"""New data of a formula: columns come in other types than in fit, and mean the same."""

import datetime as dt
import re

import numpy as np
import pandas as pd
import pytest

from vbsvm import Model, Ridge, load


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
    incomplete = numbered["h"].where(numbered.index > 3)
    np.testing.assert_array_equal(
        fit.decision_function(numbered.assign(h=incomplete.astype("category"))),
        fit.decision_function(numbered.assign(h=incomplete)),
    )
    with pytest.raises(ValueError, match="Column 'h' was numeric in fit, and contains '2' now"):
        fit.predict(numbered.assign(h=numbered["h"].astype(str).astype("category")))


def test_numbers_that_were_no_categories_in_fit_are_refused(numbered):
    fit = Model("y ~ x + h", numbered.astype({"h": "category"})).fit()
    with pytest.raises(ValueError, match="Column 'h' contains 7 in row 4, a category that was not seen in fit"):
        fit.predict(numbered.assign(h=numbered["h"].where(numbered.index != 4, 7)))
    fit = Model("y ~ x + h", numbered.astype({"h": str})).fit()
    with pytest.raises(ValueError, match=r"Column 'h' contains \d in row 0, a category that was not seen in fit"):
        fit.predict(numbered)


def test_a_misspelt_level_gets_the_similar_one_and_no_advice_on_the_model(numbered):
    fit = Model("y ~ x + h", numbered.assign(h=np.where(numbered["h"] > numbered["h"].min(), "low", "high"))).fit()
    with pytest.raises(ValueError, match=r"there were 'high', 'low'\. Did you mean 'high'\?$"):
        fit.predict(numbered.assign(h="hihg"))
    advice = re.escape("there were 'high', 'low'. Recode it, or leave such rows out; a random effect, (1 | h),")
    for other in ("unheard of", 7):
        with pytest.raises(ValueError, match=advice if isinstance(other, str) else "'h'") as refused:
            fit.predict(numbered.assign(h=other))
        assert "Did you mean" not in str(refused.value)


@pytest.mark.parametrize("dtype", [str, "category"])
def test_a_category_that_is_missing_in_every_row_may_come_as_numbers(numbered, dtype):
    fit = Model("y ~ x + h", numbered.astype({"h": dtype})).fit()
    expected = fit.decision_function(numbered.assign(h=None))
    np.testing.assert_array_equal(fit.decision_function(numbered.assign(h=np.nan)), expected)
    assert np.isfinite(expected).all()


@pytest.mark.parametrize("lost", [(), (3, 8)])
def test_intervals_are_categories_by_their_text(numbered, tmp_path, lost):
    frame = numbered.assign(k=pd.cut(numbered["x"], 3).where(~numbered.index.isin(lost)))
    fit = Model("y ~ k", frame, {"fixed": Ridge()}).fit()
    fit.save(tmp_path / "fit")
    assert fit.plan.names == tuple(f"k[T.{label}]" for label in frame["k"].cat.categories[1:])
    expected = fit.decision_function(frame)
    assert len(np.unique(expected)) == 3 + bool(lost)
    for given in (frame, frame.astype({"k": object}), frame.assign(k=frame["k"].astype("string"))):
        np.testing.assert_array_equal(load(tmp_path / "fit").decision_function(given), expected)


@pytest.mark.parametrize("kind", [list, pd.Categorical])
@pytest.mark.parametrize(
    "day", [dt.date(2020, 1, 1), dt.timedelta(1), pd.Period("2020-01"), pd.Timestamp("2020-01-01")]
)
def test_dates_are_refused_in_whatever_they_come(numbered, kind, day):
    with pytest.raises(ValueError, match="Column 'k' contains dates or times: make it a number"):
        Model("y ~ x + k", numbered.assign(k=kind([None, *[day] * 59])))
