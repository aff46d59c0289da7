"""Tidy tables, and polars out for polars in."""

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_iris

from optional import optional
from saved_models import table
from vbsvm import VBSVC, Model, VBLogistic, load, plots

pl = optional("polars")

COLUMNS = ["term", "estimate", "std_error", "conf_low", "conf_high"]


@pytest.fixture(scope="module")
def iris():
    return load_iris(return_X_y=True, as_frame=True)


def test_a_tidy_table_has_the_numbers_of_the_summary():
    fit = Model("y ~ a + h + (1 | g)", table()).fit()
    tidy, summary = fit.tidy(0.9, "posterior"), fit.summary(0.9, "posterior")
    assert list(tidy.columns) == COLUMNS
    assert tidy["term"].tolist() == summary.index.tolist()
    np.testing.assert_array_equal(tidy[COLUMNS[1:]], summary[["estimate", "std_error", "lower", "upper"]])
    assert tidy.attrs["note"] == summary.attrs["note"]
    assert fit.glance().to_dict("records") == [
        {"n_rows": len(table()), "n_terms": len(summary), "elbo": fit.elbo, "converged": True}
    ]


def test_odds_ratios_are_asked_for_and_belong_to_a_logistic_model(iris):
    X, y = iris[0][:100], iris[1][:100]
    clf = VBLogistic().fit(X, y)
    plain, odds = clf.tidy(), clf.tidy(exponentiate=True)
    for name in ("estimate", "conf_low", "conf_high"):
        np.testing.assert_allclose(odds[name], np.exp(plain[name]))
    np.testing.assert_array_equal(odds["std_error"], plain["std_error"])
    with pytest.raises(ValueError, match="hinge loss are no log odds"):
        VBSVC().fit(X, y).tidy(exponentiate=True)


def test_with_several_classes_the_class_is_a_column(iris):
    clf = VBLogistic().fit(*iris)
    tidy = clf.tidy()
    assert list(tidy.columns) == ["class", *COLUMNS]
    assert tidy["class"].tolist() == [0] * 5 + [1] * 5 + [2] * 5
    np.testing.assert_array_equal(tidy["estimate"], clf.summary()["estimate"])
    assert clf.glance()["class"].tolist() == [0, 1, 2]


def test_polars_rows_give_polars_tables(iris, tmp_path):
    X = iris[0].copy()
    X.iloc[3, 1] = np.nan
    pandas, polars = VBLogistic().fit(X, iris[1]), VBLogistic().fit(pl.from_pandas(X), iris[1])
    assert isinstance(polars.tidy(), pl.DataFrame)
    assert polars.tidy().columns == ["class", *COLUMNS]
    np.testing.assert_allclose(polars.tidy()["estimate"], pandas.tidy()["estimate"], rtol=1e-6, atol=1e-9)
    assert polars.glance()["converged"].to_list() == [True] * 3
    new = pl.from_pandas(X.head(6))
    expected, spread = polars.impute(new)
    assert expected.columns == spread.columns == new.columns
    assert expected["sepal width (cm)"].is_finite().all()
    (drawn,) = polars.impute(new, 1, random_state=0)
    assert drawn.columns == new.columns
    assert polars.predictive(new).columns[:2] == ["class", "row"]
    assert isinstance(polars.predictive(X.head(6)), pd.DataFrame)
    polars.save(tmp_path / "model")
    assert isinstance(load(tmp_path / "model").tidy(), pd.DataFrame)


def test_a_formula_gives_polars_tables_too():
    data = pl.from_pandas(table().assign(h=table()["h"].astype(str), g=table()["g"].astype(str)))
    fit = Model("y ~ a + b", data).fit()
    assert fit.tidy().columns == COLUMNS
    assert fit.predictive(data.head(3)).shape[0] == 3
    holes = data.with_columns(pl.when(pl.int_range(pl.len()) == 2).then(None).otherwise(pl.col("a")).alias("a"))
    expected, _ = fit.impute(holes.head(5))
    assert expected.columns == ["a", "b"]
    (drawn,) = Model("y ~ a + b", holes).fit().impute(holes, 1, random_state=0)
    assert drawn.columns == holes.columns
    assert drawn["a"].null_count() == 0


def test_effects_of_polars_rows_are_polars_frames(tmp_path):
    frame = table().assign(h=table()["h"].astype(str), g=table()["g"].astype(str))
    data = pl.from_pandas(frame)
    formula = "y ~ a + h + (1 | g)"
    polars, pandas = Model(formula, data).fit(), Model(formula, frame).fit()
    for found, whole in (
        (polars.effects("h", by="g"), pandas.effects("h", by="g")),
        (polars.contrasts("h"), pandas.contrasts("h")),
        (polars.slopes("a"), pandas.slopes("a")),
        (polars.random_effects(), pandas.random_effects()),
    ):
        assert isinstance(found, pl.DataFrame)
        assert found.columns == [*whole.index.names, *whole.columns]
        assert found[whole.index.names[0]].to_list() == whole.index.get_level_values(0).tolist()
        np.testing.assert_allclose(found[whole.columns[0]], whole.iloc[:, 0], rtol=1e-4, atol=1e-6)
    # The rows that are averaged over decide, not those of the fit.
    assert isinstance(polars.effects("a", data=frame), pd.DataFrame)
    assert isinstance(pandas.effects("a", data=data), pl.DataFrame)
    # Tables that are read carry notes, which frames of polars can't hold.
    assert isinstance(polars.summary(), pd.DataFrame)
    assert isinstance(polars.variance_components(), pd.DataFrame)
    # Figures and reports draw from the same numbers.
    axes = pytest.importorskip("matplotlib.figure").Figure()
    plots.effects(polars, "a", by="h", ax=axes)
    plots.random_effects(polars, axes.add_subplot())
    pytest.importorskip("jinja2")
    polars.report(tmp_path / "report.html")


def test_effects_of_an_estimator_with_groups_are_polars_frames_too(iris):
    X = pl.from_pandas(iris[0]).with_columns(pl.Series("site", ["a", "b", "c"] * 50))
    clf = VBLogistic(group="site").fit(X, iris[1])
    assert clf.effects("petal width (cm)", at=[1.0, 2.0]).columns[:2] == ["petal width (cm)", "class"]
    assert clf.random_effects_.columns[:2] == ["class", "site"]
