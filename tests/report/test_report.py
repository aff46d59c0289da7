"""The report as a text: what it says, that it says it safely, and the same each time."""

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_iris

from page_outline import outline
from vbsvm import VBSVC, Fit, GaussianImputation, Gibbs, Joint, LaplaceZero, Model, NotAtRandom, Variational


@pytest.fixture(scope="module")
def data():
    rng, n = np.random.default_rng(0), 300
    frame = pd.DataFrame(rng.normal(size=(n, 3)), columns=["age", "dose", "sugar"])
    frame["arm"] = rng.choice(["drug", "placebo"], n).astype(object)
    frame["g"] = rng.integers(0, 15, n)
    signal = np.sin(2 * frame["age"]) + frame["sugar"] - (frame["arm"] == "drug") + rng.logistic(size=n)
    frame["y"] = np.where(signal > 0, "event", "none")
    return frame


@pytest.fixture(scope="module")
def with_missing(data):
    incomplete, rng = data.copy(), np.random.default_rng(1)
    incomplete.loc[rng.random(len(data)) < 0.4, "sugar"] = np.nan
    incomplete.loc[rng.random(len(data)) < 0.1, "arm"] = None
    return incomplete


@pytest.fixture(scope="module")
def full(with_missing):
    return Model("y ~ s(age) + sugar + arm + (1 | g)", with_missing, positive="event", likelihood="hinge").fit()


@pytest.fixture(scope="module")
def written(full, with_missing, tmp_path_factory):
    return full.report(tmp_path_factory.mktemp("report") / "r.html", with_missing)


def titles(page):
    return [text for level, text in page.headings if level == 2]


def test_a_full_report_says_what_was_fitted_and_how_far_to_trust_it(full, with_missing, written):
    page = outline(written)
    assert titles(page) == [
        "Summary",
        "Predictive performance",
        "Calibration",
        "Marginal effects",
        "Coefficients",
        "Smooth terms",
        "Random effects",
        "Missing values",
        "Model",
        "Data",
        "Convergence",
        "Limitations",
    ]
    n_event = (with_missing["y"] == "event").sum()
    n_sugar, n_rows = with_missing["sugar"].isna().sum(), with_missing[["sugar", "arm"]].isna().any(axis=1).sum()
    for said in (
        "y ~ s(age) + sugar + arm + (1 | g)",
        "Where it is positive, “event” is predicted, otherwise “none”.",
        f"The fit converged after {full.outcome.passes} passes",
        f"event {n_event} {100 * n_event / 300:.1f} %",
        f"sugar {n_sugar} {100 * n_sugar / 300:.1f} %",
        f"{n_rows} of 300",
        "More than 30 % of the values are missing in “sugar”",
        "Observations are predicted by refits without them, in 50 folds",
        "the model, in sample",
        "the model, new levels",
        "the other observations of the same g",
        "including the uncertainty due to missing values",
        "The exact bound underestimates standard deviations",
        "are not comparable with those of a logistic model",
        "predictor missing proportion FMI",
        "A support vector machine estimates which class is more likely, not how likely it is.",
    ):
        assert said in page.words, said
    assert len(page.named("svg")) == 10


def test_every_coefficient_stands_in_the_table_with_its_number(full, written):
    text = written.read_text(encoding="utf-8")
    for name, row in full.summary().iterrows():
        assert re.search(rf"<th scope=\"row\">{re.escape(name)}</th>.*?data-value=\"{row['estimate']}\"", text, re.S)


def test_a_column_of_the_summary_that_is_new_to_the_report_has_its_own_name(full, tmp_path, monkeypatch):
    summary = Fit.summary
    monkeypatch.setattr(Fit, "summary", lambda self, level: summary(self, level).assign(skewness=0.25))
    assert "FMI skewness estimate per SD" in outline(full.report(tmp_path / "r.html")).words


def test_without_rows_at_hand_nothing_is_said_of_predictions(full, tmp_path):
    page = outline(full._without_rows().report(tmp_path / "r.html"))
    assert "Predictive performance is not available" in page.words
    assert "Calibration" not in titles(page)
    assert "balanced error" not in page.words


def test_a_fit_that_knows_little_of_its_data_is_reported_all_the_same(full, tmp_path):
    page = outline(replace(full, facts=None, missing_patterns=None, population=None).report(tmp_path / "r.html"))
    assert "numbers of observations are not stored" in page.words
    assert "Missing values" not in page.words


def test_other_rows_than_those_of_the_fit_are_not_passed_off_as_them(full, with_missing, tmp_path):
    page = outline(full.report(tmp_path / "r.html", with_missing[:200]))
    assert "the model, the 200 observations given" in page.words
    page = outline(full._without_rows().report(tmp_path / "r.html", with_missing[:200]))
    assert "was given 200 observations, but the fit used 300" in page.words
    page = outline(full._without_rows().report(tmp_path / "r.html", with_missing))
    assert "If these are the training data, predictive performance and calibration are in sample" in page.words


def test_the_same_fit_gives_the_same_bytes(full, with_missing, written, tmp_path):
    assert full.report(tmp_path / "again.html", with_missing).read_bytes() == written.read_bytes()


def test_caveats_are_said_only_where_they_apply(data, tmp_path):
    X, y = data[["age", "dose", "sugar"]], data["y"]
    page = outline(VBSVC().fit(X, y).report(tmp_path / "r.html"))
    for absent in ("missing values", "Variable selection", "levels", "at random", "Gibbs sweeps"):
        assert absent not in page.words, absent
    assert "The penalty α of the coefficients was inferred" in page.words


def test_the_exact_bound_is_not_called_mean_field(data, tmp_path):
    fit = Model("y ~ sugar + s(age) + (1 | g)", data, likelihood="hinge").fit(Variational(bound="exact"))
    page = outline(fit.report(tmp_path / "r.html"))
    for said in (
        "variational Bayes with the exact bound",
        "95 % intervals that are robust confidence intervals",
        "95 % intervals by linear response; too narrow for random effects",
        "The exact bound underestimates standard deviations of random effects",
        "cluster-robust (sandwich), clustered on g",
    ):
        assert said in page.words, said
    for absent in ("mean-field", "mean field"):
        assert absent not in page.words, absent


def test_a_sampler_shows_chains_and_no_bound(data, tmp_path):
    X, y = data[["age", "sugar"]], data["y"]
    with pytest.warns(UserWarning, match="chains have not converged"):
        clf = VBSVC(inference=Gibbs(draws=60, tune=20, chains=2), random_state=0).fit(X, y)
    page = outline(clf.report(tmp_path / "r.html", X, y))
    assert "2 chains of 60 draws" in page.words
    assert "Caution: The chains have not mixed well enough" in page.words
    assert "R-hat 1." in page.words
    assert "mean-field" not in page.words
    assert "Standard deviations are too small" not in page.words
    assert "Intervals are not confidence intervals" in page.words
    assert "below the nominal level" in page.words
    assert "converged after" not in page.words


def test_a_sampler_of_gates_shows_how_they_mix(data, tmp_path):
    X, y = data[["age", "sugar"]], data["y"]
    with pytest.warns(UserWarning, match="chains have not converged"):
        clf = VBSVC(LaplaceZero(0.3), Gibbs(draws=60, tune=20, chains=2), random_state=0).fit(X, y)
    assert "R-hat, inclusion" in outline(clf.report(tmp_path / "r.html")).words


@pytest.mark.parametrize("prior", [LaplaceZero(0.2, restarts=1), LaplaceZero(0.2, gates=Joint())])
def test_selection_has_a_section_and_a_caveat(data, tmp_path, prior):
    X, y = data[["age", "dose", "sugar"]], data["y"]
    page = outline(VBSVC(prior).fit(X, y).report(tmp_path / "r.html"))
    assert "Variable selection" in titles(page)
    assert "predictors have an inclusion probability above ½" in page.words
    assert ("several local maxima" in page.words) == (not prior.joint)
    assert bool(re.search(r"\d starts (dis)?agree", page.words)) == bool(prior.restarts)


@pytest.mark.parametrize("n_inputs", [3, 40])
def test_a_selection_lists_likely_predictors_first_and_effects_of_included_ones(tmp_path, n_inputs):
    rng, names = np.random.default_rng(0), [f"x{k}" for k in range(n_inputs)]
    X = pd.DataFrame(rng.normal(size=(150, n_inputs)), columns=names)
    y = np.where(2 * X["x2"] - X["x1"] + rng.logistic(size=150) > 0, "case", "control")
    clf = VBSVC(LaplaceZero()).fit(X, y)
    included = {name for name, p in zip(names, clf.inclusion_probability_.ravel(), strict=True) if p > 0.5}
    assert 0 < len(included) < n_inputs
    text = clf.report(tmp_path / "r.html").read_text()
    table = text[text.index(">estimate per SD<") :].partition("</table>")[0]
    shown = re.findall(r'<th scope="row">(x\d+)', table)
    assert set(shown[: len(included)]) == included
    assert len(shown) == min(n_inputs, 10)
    assert ("; 30 are not shown." in text) == (n_inputs == 40)
    assert set(re.findall(r"<figcaption>Average predicted probability by (\w+)", text)) == included
    fit = Model("y ~ .", X.assign(y=y), {"fixed": LaplaceZero()}).fit()
    text = fit.report(tmp_path / "r.html").read_text()
    chosen = {fit.plan.shown_names[k] for k in np.flatnonzero(fit.inclusion_probability > 0.5)}
    assert set(re.findall(r"<figcaption>Average predicted probability by (\w+)", text)) == chosen


@pytest.mark.parametrize("n_groups", [6, 100])
def test_levels_of_grouping_factors_are_not_named(data, tmp_path, n_groups):
    named = data.assign(g=[f"patient-{k % n_groups}" for k in range(len(data))])
    text = Model("y ~ age + (1 | g)", named).fit().report(tmp_path / "r.html", named).read_text()
    assert "patient-" not in text
    assert "Levels, which may be persons, are not named here; random_effects() lists" in text


def test_several_classes_have_a_section_each(tmp_path):
    X, y = load_iris(return_X_y=True, as_frame=True)
    names = np.array(["setosa", "versicolor", "virginica"])[y]
    clf = VBSVC().fit(X, names)
    page = outline(clf.report(tmp_path / "r.html", X, names))
    assert [f"{name} versus the rest" for name in clf.classes_] == titles(page)[4:7]
    left_out = clf.left_out_predictions()
    assert f"{100 * left_out.error.value:.1f} % misclassified (leave-one-out)" in page.figures
    versicolor = left_out.labels == "versicolor"
    counts = [((left_out.predicted == name) & versicolor).sum() for name in clf.classes_]
    assert f"versicolor {counts[0]} {counts[1]} {counts[2]}" in page.words
    assert "setosa 50 33.3 %" in page.words


@pytest.mark.parametrize(
    "settings",
    [
        GaussianImputation(labels="none"),
        GaussianImputation(labels="likelihood"),
        GaussianImputation(mechanism=NotAtRandom(columns=["sugar"])),
    ],
)
def test_the_distribution_of_missing_inputs_decides_what_is_said_of_it(with_missing, tmp_path, settings):
    known = with_missing.dropna(subset="arm")
    page = outline(
        Model("y ~ age + sugar", known, imputation=settings, likelihood="hinge").fit().report(tmp_path / "r.html")
    )
    assert ("Bias of incomplete predictors towards 0" in page.words) == (settings.labels == "none")
    assert ("Bias of incomplete predictors away from 0" in page.words) == (settings.labels == "likelihood")
    assert ("depends on the value itself" in page.words) == (settings.mechanism is not None)


def test_a_fit_without_columns_and_one_without_intercept_are_reported(data, tmp_path):
    page = outline(Model("y ~ 1 + (1 | g)", data).fit().report(tmp_path / "r.html", data))
    assert "0 design columns, 15 levels of g" in page.words
    clf = VBSVC(fit_intercept=False).fit(data[["age"]], data["y"])
    assert "1 design column, no intercept" in outline(clf.report(tmp_path / "r.html")).words


def test_weights_and_two_factors_with_slopes_are_told(data, tmp_path):
    weighted = data.assign(w=np.where(data["y"] == "event", 2.0, 1.0), h=data["g"] % 4)
    fit = Model("y ~ age + (age | g) + (1 | h)", weighted, weights="w").fit()
    page = outline(fit.report(tmp_path / "r.html", weighted))
    assert f"300 observations with a total weight of {int(weighted['w'].sum())}" in page.words
    assert "sum of weights" in page.words
    assert "Random slopes of age of the 15 levels of g" in page.words
    assert "h has only 4 levels" in page.words


def test_names_from_the_data_are_text_everywhere(data, tmp_path):
    name, label = '<script>window.hacked="1"</script>', "</svg><b>&amp;$x^2$\x01\uffff\ud800"
    X, y = data[["age", "sugar"]].rename(columns={"age": name}), np.where(data["y"] == "event", label, "none")
    clf = VBSVC(LaplaceZero(0.5)).fit(X, y)
    page = outline(clf.report(tmp_path / "r.html", X, y, title=f"{name}{label}"))
    assert len(page.named("script")) == 1
    assert not page.named("b")
    assert page.words.count(name) >= 4
    assert "$x^2$" in page.words


def test_letters_of_other_scripts_and_long_names_are_kept(data, tmp_path):
    frame = data.rename(columns={"age": "年龄", "sugar": "x" * 300})
    text = VBSVC().fit(frame[["年龄", "x" * 300]], frame["y"]).report(tmp_path / "r.html").read_text(encoding="utf-8")
    assert text.count("年龄") >= 2
    assert "x" * 300 in text


def test_an_unfinished_fit_asks_for_a_look(data, tmp_path):
    with pytest.warns(UserWarning, match="max_iter"):
        clf = VBSVC(inference=Variational(max_iter=3)).fit(data[["age", "sugar"]], data["y"])
    assert "Caution: The fit reached the limit of passes (3)" in outline(clf.report(tmp_path / "r.html")).words


def test_separated_classes_ask_for_a_look(tmp_path):
    X = pd.DataFrame({"x": np.r_[np.linspace(-3, -1, 30), np.linspace(1, 3, 30)]})
    y = X["x"] > 0
    assert (
        "Complete separation: the predictors separate these classes in the data"
        in outline(VBSVC().fit(X, y).report(tmp_path / "r.html", X, y)).words
    )


CLAIMS = r"mean what they say|may be reported|signs and order|[Rr]are class needs|order, not their size"


def test_claims_that_are_not_true_are_not_made_again():
    root = Path(__file__).parents[2]
    files = [root / "README.md", *(root / "docs").glob("*.md"), *(root / "src").rglob("*.py"), *root.glob("examples/*")]
    for file in files:
        if file.is_file():
            assert not re.search(CLAIMS, file.read_text(encoding="utf-8")), file


def test_a_place_that_does_not_exist_is_refused_and_nothing_is_left(full, tmp_path):
    with pytest.raises(ValueError, match="there is no directory"):
        full.report(tmp_path / "nowhere" / "r.html")
    with pytest.raises(ValueError, match="is a directory"):
        full.report(tmp_path)
    (tmp_path / "r.html").write_text("old")
    with pytest.raises(ValueError, match="no column"):
        full.report(tmp_path / "r.html", pd.DataFrame({"age": [1.0]}))
    assert [path.name for path in tmp_path.iterdir()] == ["r.html"]
    assert (tmp_path / "r.html").read_text() == "old"


def test_half_of_the_rows_data_is_refused(data, tmp_path):
    clf = VBSVC().fit(data[["age"]], data["y"])
    with pytest.raises(ValueError, match="pass both X and y"):
        clf.report(tmp_path / "r.html", data[["age"]])


def test_a_missing_package_is_named(full, tmp_path, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "jinja2", None)
    with pytest.raises(ImportError, match=r"pip install 'vbsvm\[report\]'"):
        full.report(tmp_path / "r.html")
