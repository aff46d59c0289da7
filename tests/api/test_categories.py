"""Text and categories in the tables of estimators: ``categories="one-hot"``."""

import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.model_selection import cross_val_score

from optional import optional
from vbsvm import VBSVC, GaussianImputation, LaplaceZero, VBLogistic, load

pl = optional("polars")

N = 240
MANY = [f"c{k}" for k in range(5 * N)]


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(7)
    frame = pd.DataFrame(
        {
            "age": rng.normal(50.0, 10.0, N),
            "city": rng.choice(["Bern", "Genf", "Uri"], N),
            "sex": pd.Categorical(rng.choice(["m", "f"], N), categories=["m", "f"]),
            "ward": pd.Categorical(rng.choice([3, 5, 8], N)),
        }
    )
    score = 0.1 * (frame["age"] - 50.0) + 2.0 * (frame["city"] == "Uri") - (frame["sex"] == "m").astype(float)
    return frame, np.where(score + rng.logistic(size=N) > 0.5, "yes", "no")


NAMES = ["age", "city[Bern]", "city[Genf]", "city[Uri]", "sex[m]", "ward[3]", "ward[5]", "ward[8]"]


def by_hand(frame):
    return pd.DataFrame(
        {
            "age": frame["age"],
            **{f"city[{one}]": (frame["city"] == one).astype(float) for one in ("Bern", "Genf", "Uri")},
            "sex[m]": (frame["sex"] == "m").astype(float),
            **{f"ward[{one}]": (frame["ward"] == one).astype(float) for one in (3, 5, 8)},
        }
    )


@pytest.fixture(scope="module")
def fitted(data):
    return VBLogistic(categories="one-hot").fit(*data)


@pytest.mark.parametrize("kind", [VBSVC, VBLogistic])
def test_it_is_the_fit_to_columns_of_zeros_and_ones(data, kind):
    frame, y = data
    clf, same = kind(categories="one-hot").fit(frame, y), kind().fit(by_hand(frame), y)
    np.testing.assert_allclose(clf.coef_, same.coef_, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(clf.predict_proba(frame), same.predict_proba(by_hand(frame)), rtol=1e-6)
    assert clf.summary().index.tolist() == ["(intercept)", *NAMES]
    assert clf.feature_names_in_.tolist() == ["age", "city", "sex", "ward"]
    assert clf.n_features_in_ == 4
    assert {name: list(own) for name, own in clf.levels_.items()} == {
        "city": ["Bern", "Genf", "Uri"],
        "sex": ["f", "m"],
        "ward": [3, 5, 8],
    }


def test_polars_frames_and_arrays_of_objects_are_read_alike(data, fitted):
    frame, y = data
    polars = pl.from_pandas(frame.assign(ward=frame["ward"].astype(str))).with_columns(
        pl.col("ward").cast(pl.Categorical)
    )
    from_polars = VBLogistic(categories="one-hot").fit(polars, y)
    np.testing.assert_allclose(from_polars.coef_, fitted.coef_, rtol=1e-6, atol=1e-9)
    assert from_polars.summary().index.tolist() == ["(intercept)", *NAMES]
    of_array = VBLogistic(categories="one-hot").fit(frame.drop(columns="ward").to_numpy(dtype=object), y)
    assert of_array.summary().index.tolist() == ["(intercept)", "x0", "x1[Bern]", "x1[Genf]", "x1[Uri]", "x2[m]"]
    assert of_array.effects("x1").index.tolist() == ["Bern", "Genf", "Uri"]


def test_without_the_option_text_is_refused(data):
    with pytest.raises(ValueError, match='categories="one-hot"'):
        VBSVC().fit(*data)
    with pytest.raises(ValueError, match="categories must be None or 'one-hot'; got 'dummy'"):
        VBSVC(categories="dummy").fit(*data)


def test_a_new_level_is_taken_as_missing_and_said(data, fitted):
    frame, _ = data
    new, missing = frame.head(5).copy(), frame.head(5).copy()
    new.loc[2, "city"], missing.loc[2, "city"] = "Zug", None
    with pytest.warns(UserWarning, match=r"not seen in fit in 'city' \('Zug' in row 2\)"):
        found = fitted.predict_proba(new)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        np.testing.assert_array_equal(found, fitted.predict_proba(missing))
    lowest, highest = (fitted.predict_proba(frame.head(5).assign(city=one))[2, 1] for one in ("Genf", "Uri"))
    assert lowest < found[2, 1] < highest


def test_missing_categories_are_inferred_in_fit():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"age": rng.normal(size=1500), "city": rng.choice(["Bern", "Genf", "Uri"], 1500)})
    y = frame["age"] + 2.0 * (frame["city"] == "Uri") - 0.5 + rng.logistic(size=1500) > 0
    gone = frame.assign(city=frame["city"].where(rng.random(1500) > 0.4, None))

    def effect(table):
        coefficients = VBLogistic(categories="one-hot").fit(table, y).coef_[0]
        return coefficients[3] - coefficients[2]

    assert abs(effect(gone) - effect(frame)) < 0.3
    assert abs(effect(gone.fillna({"city": "Uri"})) - effect(frame)) > 0.6
    clf, row = VBLogistic(categories="one-hot").fit(gone, y), int(np.argmax(gone["city"].isna()))
    expected, spread = clf.impute(gone)
    levels = ["city[Bern]", "city[Genf]", "city[Uri]"]
    assert (spread.loc[row, levels] > 0.1).all()
    assert abs(expected.loc[row, levels].sum() - 1.0) < 0.05
    known = int(np.argmax(gone["city"].notna()))
    assert (spread.loc[known, levels] == 0).all()


def test_a_level_of_rows_without_weight_is_not_learned(data):
    frame, y = data
    odd = pd.concat([frame, frame.head(3).assign(city="Zug")], ignore_index=True)
    weights = np.r_[np.ones(N), np.zeros(3)]
    clf = VBSVC(categories="one-hot").fit(odd, np.r_[y, y[:3]], sample_weight=weights)
    np.testing.assert_allclose(clf.coef_, VBSVC(categories="one-hot").fit(frame, y).coef_, rtol=1e-6, atol=1e-9)


def test_effects_set_levels(data, fitted):
    frame, _ = data
    table = fitted.effects("city")
    for level in ("Bern", "Genf", "Uri"):
        expected = fitted.predict_proba(frame.assign(city=level))[:, 1].mean()
        np.testing.assert_allclose(table.loc[level, "estimate"], expected, rtol=1e-9)
    assert fitted.contrasts("sex").index.tolist() == ["m - f"]
    assert set(fitted.effects("age", by="city").index.get_level_values("city")) == {"Bern", "Genf", "Uri"}
    with pytest.raises(ValueError, match="Zug"):
        fitted.effects("city", at=["Zug"])


def test_copies_files_and_folds_keep_the_levels(data, fitted, tmp_path):
    frame, y = data
    assert clone(fitted).categories == "one-hot"
    fitted.save(tmp_path / "model")
    again = load(tmp_path / "model")
    np.testing.assert_array_equal(again.predict_proba(frame), fitted.predict_proba(frame))
    assert again.summary().index.tolist() == ["(intercept)", *NAMES]
    assert cross_val_score(VBSVC(categories="one-hot"), frame, y, cv=3).mean() > 0.65
    frame.to_csv(tmp_path / "rows.csv", index=False)
    fitted.predict_files(tmp_path / "rows.csv", tmp_path / "out.csv")
    assert pd.read_csv(tmp_path / "out.csv").iloc[:, 0].tolist() == fitted.predict(frame).tolist()


def test_a_group_stands_beside_categories(data):
    frame, y = data
    clf = VBSVC(categories="one-hot", group="ward").fit(frame, y)
    assert clf.summary().index.tolist() == ["(intercept)", *NAMES[:5]]
    assert clf.random_effects_.index.tolist() == [3, 5, 8]
    assert clf.predict(frame).shape == (N,)


def test_a_column_is_selected_with_any_of_its_levels(data):
    frame, y = data
    clf = VBSVC(LaplaceZero(0.1), categories="one-hot").fit(frame, y)
    owners = np.array([name.split("[")[0] for name in NAMES])
    expected = [name for name in frame.columns if clf.selected_[0][owners == name].any()]
    assert "city" in expected
    assert clf.get_feature_names_out().tolist() == expected
    assert clf.set_output(transform="pandas").transform(frame).columns.tolist() == expected


def test_a_report_shows_the_category_as_one_input(data, fitted, tmp_path):
    page = fitted.report(tmp_path / "page.html", *data).read_text(encoding="utf-8")
    assert "city[Uri]" in page


@pytest.mark.parametrize(
    ("act", "words"),
    [
        (lambda clf, X, y: clf.partial_fit(X, y), "partial_fit"),
        (lambda clf, X, y: clf.fit(X, y).to_sklearn(), "encodes categories: use save"),
        (lambda clf, X, y: clf.fit(X, y).impute(X, 2), "draws of encoded categories are not supported"),
        (lambda clf, X, y: clf.fit(X, y).predict(X.assign(city=1.0)), "'city' were text in fit"),
        (lambda clf, X, y: clf.fit(X, y).predict(X.assign(age="old")), "Column 'age' is not numeric"),
        (lambda clf, X, y: clf.fit(pd.concat([X] * 5).assign(city=MANY), np.tile(y, 5)), "has 1200 levels"),
        (lambda clf, X, y: clf.fit(X.assign(city=[1, "a"] * (N // 2)), y), "mixes text and numbers"),
        (lambda clf, X, y: clf.fit(X.assign(city=None), y), "'city' has no value"),
        (lambda clf, X, y: clf.fit(X.assign(**{"city[Uri]": 1.0}), y), r"the name 'city\[Uri\]'"),
    ],
)
def test_what_it_does_not_take_is_refused_in_words(data, act, words):
    with pytest.raises((ValueError, AttributeError), match=words):
        act(VBSVC(categories="one-hot", imputation=GaussianImputation()), *data)
