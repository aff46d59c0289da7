"""Spreads of coefficients by kind, as users meet them: tables, matrices, files, figures."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner
from scipy.special import ndtri, stdtrit

from incomplete_models import PAPER
from vbsvm import VBSVC, Gibbs, LaplaceZero, Model, Variational, load
from vbsvm.cli import main
from vbsvm.results import covariance, training_rows

KINDS = ("robust", "posterior", "curvature", "mean-field")


@pytest.fixture(scope="module")
def data():
    rng, n = np.random.default_rng(4), 240
    frame = pd.DataFrame({"a": 3 * rng.normal(size=n) + 5, "b": rng.normal(size=n), "g": np.arange(n) % 24})
    score = 0.4 * (frame["a"] - 5) - frame["b"] + rng.normal(size=24)[frame["g"]] + rng.logistic(size=n)
    return frame.assign(y=np.where(score > 0, "yes", "no"))


@pytest.fixture(scope="module")
def clf(data):
    return VBSVC().fit(data[["a", "b"]], data["y"])


@pytest.fixture(scope="module")
def mixed(data):
    return Model("y ~ a + b + (1 | g)", data, likelihood="hinge").fit()


@pytest.mark.parametrize("kind", KINDS)
def test_matrix_and_table_say_the_same(clf, mixed, kind):
    for fit in (clf.fit_[0], mixed):
        matrix, table = fit.coefficient_covariance(kind), fit.summary(0.9, covariance=kind)
        assert list(matrix.index) == list(matrix.columns) == list(table.index) == ["(intercept)", "a", "b"]
        np.testing.assert_allclose(matrix, matrix.T)
        np.testing.assert_allclose(np.sqrt(np.diagonal(matrix)), table["std_error"])
        quantile = stdtrit(23, 0.95) if fit is mixed and kind == "robust" else ndtri(0.95)
        np.testing.assert_allclose(table["upper"] - table["estimate"], quantile * table["std_error"])
        np.testing.assert_array_equal(table["estimate"], fit.summary()["estimate"])


def test_attributes_follow_the_default(clf):
    robust = clf.fit_[0].coefficient_covariance("robust").to_numpy()
    np.testing.assert_allclose(clf.coef_cov_[0], robust[1:, 1:])
    np.testing.assert_allclose(clf.coef_std_[0], np.sqrt(np.diagonal(robust))[1:])
    assert clf.intercept_std_[0] == pytest.approx(np.sqrt(robust[0, 0]))


def test_kinds_are_ordered_as_they_are_in_ordinary_data(clf):
    sd = {kind: np.log(clf.summary(covariance=kind)["std_error"]).mean() for kind in KINDS}
    assert sd["mean-field"] < sd["curvature"] - 0.3
    assert abs(sd["posterior"] - sd["curvature"]) < 0.2
    assert sd["robust"] > sd["posterior"] + 0.1


def test_the_sampler_has_its_own_posterior_and_a_sandwich_on_request(data, clf):
    with pytest.warns(UserWarning, match="chains have not converged"):
        drawn = VBSVC(inference=Gibbs(draws=400, tune=100, chains=2), random_state=0).fit(data[["a", "b"]], data["y"])
    own, robust = drawn.summary(), drawn.summary(covariance="robust")
    assert (own.attrs["std_error"], robust.attrs["std_error"]) == ("posterior sd", "std. error")
    assert "with the covariance of the draws" in covariance.covariance(drawn.fit_[0], "robust").notes.spreads[1]
    np.testing.assert_allclose(robust["std_error"], clf.summary()["std_error"], rtol=0.25)
    assert (robust["std_error"] > own["std_error"]).all()
    with pytest.raises(ValueError, match="'curvature' is only available for variational fits"):
        drawn.summary(covariance="curvature")


def test_a_file_has_what_tables_show_and_says_what_it_lacks(mixed, clf, tmp_path, monkeypatch):
    mixed.save(tmp_path / "m")
    back = load(tmp_path / "m")
    for kind in (None, *KINDS):
        pd.testing.assert_frame_equal(back.summary(covariance=kind), mixed.summary(covariance=kind))
    pd.testing.assert_frame_equal(back.variance_components(), mixed.variance_components())
    monkeypatch.setattr(training_rows, "MAX_RESPONDING", 0)
    large = VBSVC().fit(*_rows(clf))
    assert "with the curvature at the mean" in covariance.covariance(large.fit_[0]).notes.spreads[1]
    large.save(tmp_path / "l")
    with pytest.raises(ValueError, match="'posterior' needs the training data"):
        load(tmp_path / "l").summary(covariance="posterior")


def _rows(clf):
    source = clf.fit_[0]._rows.source
    return source.X, source.y


def test_the_command_line_shows_the_kind_that_is_asked_for(mixed, tmp_path):
    mixed.save(tmp_path / "m")
    said = CliRunner().invoke(main, ["summary", str(tmp_path / "m"), "--covariance", "posterior"])
    assert said.exit_code == 0
    assert "by linear response" in said.output
    page = CliRunner().invoke(
        main, ["report", str(tmp_path / "m"), "--covariance", "mean-field", "--out", str(tmp_path / "r.html")]
    )
    assert page.exit_code == 0
    assert "of the exact bound" in (tmp_path / "r.html").read_text(encoding="utf-8")
    wrong = CliRunner().invoke(main, ["summary", str(tmp_path / "m"), "--covariance", "sandwich"])
    assert wrong.exit_code != 0


def test_with_gates_or_missing_inputs_the_curvature_is_shown_and_others_are_refused_in_words(data):
    X = data[["a", "b"]].to_numpy()
    gated = VBSVC(LaplaceZero(0.3)).fit(X, data["y"])
    assert "by the curvature" in gated.summary().attrs["note"]
    X = np.where(np.arange(X.size).reshape(X.shape) % 11 == 0, np.nan, X)
    clf = VBSVC(imputation=PAPER).fit(X, data["y"])
    assert "two thirds" in clf.summary().attrs["note"]
    exact = VBSVC().fit(X, data["y"])
    assert "two thirds" not in exact.summary().attrs["note"]
    for kind in ("robust", "posterior"):
        with pytest.raises(ValueError, match=f"covariance='{kind}' is not available for this fit. Linear"):
            clf.summary(covariance=kind)
    with pytest.raises(ValueError, match="covariance must be one of 'robust', 'posterior'"):
        clf.summary(covariance=["robust"])


def test_separated_classes_and_piles_of_rows_are_told():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 2))
    separated = VBSVC().fit(X, X[:, 0] > 0)
    assert "Complete separation" in separated.summary().attrs["note"]
    sex = rng.integers(0, 2, size=200).astype(float)
    piled = VBSVC().fit(sex[:, None], (sex + 0.9 * rng.normal(size=200) > 0.5))
    assert "on the margin" in piled.summary().attrs["note"]


def test_wide_tables_have_the_curvature_only(monkeypatch):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(50, 30))
    monkeypatch.setattr(covariance, "MAX_COLUMNS", 20)
    clf = VBSVC().fit(X, X[:, 0] + rng.normal(size=50) > 0)
    assert "by the curvature" in clf.summary().attrs["note"]
    with pytest.raises(ValueError, match="available for up to 20 coefficients, and there are 31"):
        clf.summary(covariance="robust")


def test_class_weights_and_repetition(data):
    """Rows that count twice are two rows, and equal class weights change nothing."""
    X, y = data[["a", "b"]].to_numpy(), data["y"].to_numpy()
    inference = Variational(tol=1e-9)
    twice = VBSVC(inference=inference).fit(np.repeat(X, 2, axis=0), np.repeat(y, 2))
    weighted = VBSVC(inference=inference).fit(X, y, sample_weight=np.full(len(y), 2.0))
    np.testing.assert_allclose(weighted.coef_std_, twice.coef_std_, rtol=1e-3)
    plain = VBSVC(inference=inference).fit(X, y)
    even = VBSVC(inference=inference, class_weight={"no": 1.0, "yes": 1.0}).fit(X, y)
    np.testing.assert_allclose(even.coef_std_, plain.coef_std_, rtol=1e-6)
    assert not np.allclose(weighted.coef_std_, plain.coef_std_, rtol=0.1)  # twice the rows are surer


def schools(rng, n_schools=24, effect=1.5):
    school = np.repeat(np.arange(n_schools), 32)
    room, treated = np.repeat(np.arange(4 * n_schools), 8), rng.permutation(np.arange(n_schools) % 2)[school]
    x = rng.normal(size=len(school))
    score = x + effect * rng.normal(size=n_schools)[school] + 0.5 * rng.normal(size=4 * n_schools)[room]
    y = np.where(score + 0.7 * rng.logistic(size=len(school)) > 0, "p", "n")
    return pd.DataFrame({"y": y, "x": x, "treated": treated, "school": school.astype(str), "room": room.astype(str)})


def test_nested_groups_are_not_independent_but_those_of_the_outermost_factor_are():
    """Robust spreads of a treatment of schools, against those of the model without rooms and by rooms alone."""
    ratios, wrong = [], []
    for seed in range(4):
        data = schools(np.random.default_rng(seed))
        nested = Model("y ~ x + treated + (1 | school) + (1 | room)", data, likelihood="hinge").fit()
        alone = Model("y ~ x + treated + (1 | school)", data, likelihood="hinge").fit()
        sd = nested.summary()["std_error"]["treated"]
        assert "clustered on school" in nested.summary().attrs["note"]
        ratios.append(sd / alone.summary()["std_error"]["treated"])
        rows = nested._rows
        by_rooms = replace(rows._covariances, units=None).of("robust").covariance
        wrong.append(np.sqrt(by_rooms[2, 2]) / nested.plan.recipe.scale[1] / sd)
    assert 0.85 < np.mean(ratios) < 1.4
    assert np.mean(wrong) < 0.5  # as if rooms of a school were independent


def test_few_groups_have_longer_intervals_and_one_group_has_none(data, tmp_path):
    few = Model("y ~ a + (1 | g)", data.assign(g=data["g"] % 4), likelihood="hinge").fit().summary()
    assert "Only 4 clusters" in few.attrs["note"]
    np.testing.assert_allclose(few["upper"] - few["estimate"], stdtrit(3, 0.975) * few["std_error"])
    one = VBSVC(group="g").fit(data[["a", "b"]].assign(g="all"), data["y"])
    assert "by the curvature" in one.summary().attrs["note"]
    assert (one.summary()["std_error"] > 0).all()
    with pytest.raises(ValueError, match="There is only one cluster"):
        one.summary(covariance="robust")
    one.save(tmp_path / "one")  # what was asked for in vain is no default of the file
    pd.testing.assert_frame_equal(load(tmp_path / "one").summary(), one.summary())


@pytest.mark.parametrize("likelihood", ["hinge", "logistic"])
def test_few_groups_are_noted_where_values_are_missing_as_well(data, likelihood):
    few = data.assign(g=data["g"] % 3, a=data["a"].where(data.index % 7 > 0))
    fit = Model("y ~ a + b + (1 | g)", few, likelihood=likelihood).fit()
    for table in (fit.summary(), fit.effects("b", at=[0, 1])):
        assert "Only 3 clusters" in table.attrs["note"]
        assert table.attrs["note"].count("clusters:") == 1
    crossed = data.assign(a=few["a"], h=(np.arange(len(data)) // 7) % 12)
    table = Model("y ~ a + b + (1 | g) + (1 | h)", crossed, likelihood=likelihood).fit().summary()
    assert "Factors are crossed" in table.attrs["note"]
    assert "clusters" not in table.attrs["note"].replace("clustered", "")


def test_crossed_factors_are_told_after_sampling_as_well(data):
    crossed = data.assign(h=(np.arange(len(data)) // 7) % 12)
    climbed = Model("y ~ a + (1 | g) + (1 | h)", crossed, likelihood="hinge").fit()
    with pytest.warns(UserWarning, match="chains have not converged"):
        drawn = Model("y ~ a + (1 | g) + (1 | h)", crossed, likelihood="hinge").fit(
            Gibbs(draws=60, tune=20, chains=2), random_state=0
        )
    for fit in (climbed, drawn):
        table = fit.summary(covariance="robust")
        assert "Factors are crossed" in table.attrs["note"]


def test_every_class_has_its_note():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(150, 2))
    y = np.where(X[:, 0] > 0, np.where(X[:, 1] + rng.normal(size=150) > 0, "a", "b"), "c")
    table = VBSVC().fit(X, y).summary()
    assert "Class c:" in table.attrs["note"]
    assert "Complete separation" in table.attrs["note"].split("Class c:")[1]


@pytest.mark.parametrize("sizes", [[15] * 30, [200] + [10] * 29, np.maximum(2, 150 * 0.8 ** np.arange(30)).astype(int)])
def test_a_hinge_fit_that_a_few_large_groups_dominate_is_told_of(sizes):
    rng = np.random.default_rng(0)
    g = np.repeat(np.arange(30), sizes)
    x = rng.normal(size=len(g))
    frame = pd.DataFrame({"x": x, "g": g, "y": x + rng.normal(size=30)[g] + rng.logistic(size=len(g)) > 0})
    dominated = sizes[0] > 15
    note = Model("y ~ x + (1 | g)", frame, likelihood="hinge").fit().summary(covariance="robust").attrs["note"]
    assert ("very unequal" in note) == dominated
    logistic = Model("y ~ x + (1 | g)", frame, likelihood="logistic").fit().summary(covariance="robust")
    assert "very unequal" not in logistic.attrs["note"]
