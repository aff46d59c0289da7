"""What a report says of the data: Table 1, digest and foot; and of logistic models: odds ratios and interactions."""

import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_iris

from page_outline import outline
from vbsvm import VBSVC, Files, LaplaceZero, Model, VBLogistic, load
from vbsvm.plots.resolve_fit import predicted
from vbsvm.report import data as data_of_report
from vbsvm.report.data import describe, digest, foot
from vbsvm.report.document import pictures
from vbsvm.report.evaluation import Owner, evaluate_given, evaluate_left_out
from vbsvm.version import __version__

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def data():
    rng, n = np.random.default_rng(0), 240
    frame = pd.DataFrame(rng.normal(size=(n, 2)), columns=["age", "dose"])
    frame["cost"] = np.exp(2 * rng.normal(size=n))
    frame["smoker"] = rng.integers(0, 2, n)
    frame["arm"] = rng.choice(["drug", "placebo"], n).astype(object)
    frame["centre"] = rng.integers(0, 12, n)
    score = frame["age"] - (frame["arm"] == "drug") * frame["age"] + rng.logistic(size=n)
    frame["y"] = np.where(score > 0, "event", "none")
    frame.loc[rng.random(n) < 0.2, "dose"] = np.nan
    frame.loc[rng.random(n) < 0.1, "arm"] = None
    return frame


@pytest.fixture(scope="module")
def fit(data):
    return Model("y ~ age * arm + dose + cost + smoker + (1 | centre)", data, positive="event").fit()


def lines(table):
    return {row[0].text: [cell.text for cell in row[1:]] for row in table.rows}


def test_table_1_is_that_of_pandas_by_class_with_missing_values(fit, data):
    table = describe(evaluate_left_out([fit], None), Owner(fit), fit)
    assert table is None
    table = describe(evaluate_left_out([fit], Owner(fit)), Owner(fit), fit)
    n_event = (data["y"] == "event").sum()
    assert table.head[2:4] == (f"none (n = {240 - n_event})", f"event (n = {n_event})")
    found = lines(table)
    parts = [data[data["y"] == "none"], data[data["y"] == "event"], data]
    for k, part in enumerate(parts):
        mean, low = float(found["age"][1 + k].partition(" (")[0].replace("−", "-")), np.quantile(part["cost"], 0.25)
        assert mean == pytest.approx(part["age"].mean(), abs=0.005)
        assert float(re.search(r"\[(.*?),", found["cost"][1 + k])[1]) == pytest.approx(low, rel=0.01)
        n_drug, n_known = (part["arm"] == "drug").sum(), part["arm"].notna().sum()
        assert found["arm: drug"][1 + k] == f"{n_drug} ({100 * n_drug / n_known:.1f} %)"
        assert found["smoker: 1"][1 + k].startswith(f"{(part['smoker'] == 1).sum()} (")
        assert found["centre"][1 + k] == str(part["centre"].nunique())
    assert found["age"][0] == "mean (SD)"
    assert found["cost"][0] == "median [quartiles]"
    n_missing = data["dose"].isna().sum()
    assert found["dose"][-1] == f"{n_missing} ({100 * n_missing / 240:.1f} %)"


def test_table_1_of_arrays_has_the_first_variables_only():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(120, 50))
    y = X[:, 40] + 0.3 * rng.normal(size=120) > 0
    clf = VBSVC(LaplaceZero(0.1)).fit(X, y)
    table = describe(evaluate_left_out(clf.fit_, Owner(clf)), Owner(clf), clf.fit_[0])
    assert len(table.rows) == data_of_report.MAX_VARIABLES
    assert table.rows[0][0].text == "x40"
    assert "The first 30 of 50 predictors, with the largest standardised coefficients." in table.caption


def test_table_1_of_many_classes_and_of_rows_that_are_given(tmp_path):
    X, y = load_iris(return_X_y=True, as_frame=True)
    clf = VBSVC().fit(X, y)
    table = describe(evaluate_left_out(clf.fit_, Owner(clf)), Owner(clf), clf.fit_[0])
    assert lines(table)["petal width (cm)"][1].startswith(f"{X['petal width (cm)'][y == 0].mean():.3f}")
    clf.save(tmp_path / "m.vbsvm")
    page = outline(load(tmp_path / "m.vbsvm").report(tmp_path / "r.html", X, y))
    assert "Table 1." in page.words
    assert "digest" not in page.words


def test_the_digest_is_that_of_the_data_and_not_of_the_model(data, tmp_path):
    known = data.dropna()
    formula = "y ~ age + dose + arm + (1 | centre)"
    one = digest([Model(formula, known).fit()])
    assert re.fullmatch("[0-9a-f]{12}", one)
    assert digest([Model(formula, known, likelihood="hinge").fit()]) == one
    for changed in (known[::-1], known.assign(age=known["age"] + 1e-9), known.assign(centre=known["centre"] % 11)):
        assert digest([Model(formula, changed).fit()]) != one
    known.to_csv(tmp_path / "rows.csv", index=False)
    assert digest([Model(formula, Files(tmp_path / "rows.csv")).fit()]) == one
    incomplete = known.assign(dose=known["dose"].mask(np.arange(len(known)) == 3))
    assert digest([Model(formula, incomplete).fit()]) != one


def test_digests_of_several_classes_and_sparse_tables():
    X, y = load_iris(return_X_y=True)
    exchanged = np.where(y == 1, 2, np.where(y == 2, 1, 0))
    assert digest(VBSVC().fit(X, y).fit_) != digest(VBSVC().fit(X, exchanged).fit_)
    sparse = pytest.importorskip("scipy.sparse").csr_array(X * (X > 1))
    one = digest(VBSVC().fit(sparse, y == 1).fit_)
    sparse.data[5] += 1.0
    assert digest(VBSVC().fit(sparse, y == 1).fit_) != one


def test_the_foot_has_version_formula_digest_and_how_to_cite(fit, tmp_path):
    made, cite = foot([fit])
    assert made == f"vbsvm {__version__} · {fit.reader.parts.text} · digest of the data: {digest([fit])}"
    facts = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    quoted = re.findall(r"^(?:\s*)(?:title|journal): \"(.*)\"$", facts, re.MULTILINE)
    assert len(quoted) == 3
    for fact in [*quoted, re.search(r"year: (\d+)", facts)[1], re.search("arXiv:[0-9.]+", facts)[0], "Luts", "Ormerod"]:
        assert fact in cite
    assert __version__ in cite
    page = outline(fit.report(tmp_path / "r.html"))
    assert made in page.words
    assert cite in page.words
    fit.save(tmp_path / "m.vbsvm")
    assert "digest" not in " ".join(foot([load(tmp_path / "m.vbsvm")]))


def test_a_logistic_report_has_odds_ratios_and_no_word_of_svms(fit, tmp_path):
    page = outline(fit.report(tmp_path / "r.html"))
    table, text = fit.summary(), (tmp_path / "r.html").read_text(encoding="utf-8")
    assert "Odds ratios and coefficients" in [title for _, title in page.headings]
    per_sd = np.exp(table.loc["age", "upper"] * fit.plan.recipe.spread[fit.plan.shown_names.index("age")])
    line = re.search(r"<tr><th scope=\"row\">age</th>.*?</tr>", text[text.index("Odds ratios (OR)") :], re.DOTALL)[0]
    values = [float(value) for value in re.findall(r'data-value="([^"]*)"', line)]
    np.testing.assert_allclose(values[:3], table.loc["age", ["odds_ratio", "odds_ratio_lower", "odds_ratio_upper"]])
    assert values[5] == pytest.approx(per_sd)
    body = page.words[: page.words.index("How to cite")]
    assert not re.search(r"\bSVM\b|hinge|support vector|decision value|margin", body)


def test_a_report_of_an_svm_has_no_odds_ratios(data, tmp_path):
    clf = VBSVC().fit(data[["age", "cost"]], data["y"])
    assert "dds ratio" not in outline(clf.report(tmp_path / "r.html")).words


def test_an_interaction_is_one_figure(fit, tmp_path):
    tables = Owner(fit).tables()
    assert ("age", "arm") in tables
    assert not any(names in tables for names in (("age",), ("arm",)))
    page = outline(fit.report(tmp_path / "r.html"))
    titles = [text for text in page.text if text.startswith("Average predicted probability by")]
    assert any("by age and arm, with 95 % intervals" in title for title in titles)


def test_pictures_may_share_their_y_axis():
    axes = []

    def draw(values):
        def into(figure):
            axes.append(figure.subplots())
            axes[-1].plot(values)

        return into

    panels = [(key, "alt", "caption", draw(values)) for key, values in (("a", [0, 1]), ("b", [5, 9]))]
    pictures(panels)
    assert axes[0].get_ylim() != axes[1].get_ylim()
    drawn = pictures(panels, shared_y=True)
    low, high = axes[2].get_ylim()
    assert axes[3].get_ylim() == (low, high)
    assert low < 0
    assert high > 9
    assert [picture.caption for picture in drawn] == ["caption", "caption"]


def test_interactions_of_expressions_and_of_groups(data):
    known = data.dropna()
    fit = Model("y ~ log(cost):smoker + age:dose + centre * arm + (1 | centre)", known).fit()
    assert set(Owner(fit).tables()) <= {("cost", "smoker"), ("age", "dose"), ("dose", "age"), ("arm",)}
    assert ("cost", "smoker") in Owner(fit).tables()


def test_rows_that_are_given_to_a_loaded_classifier_are_described(data):
    known = data.dropna()
    clf = VBLogistic().fit(known[["age", "cost"]], known["y"])
    given = [predicted("report", clf, known[["age", "cost"]][:50], known["y"][:50])]
    owner = Owner(clf, known[["age", "cost"]][:50])
    table = describe(evaluate_given(clf.fit_, given, owner), owner, clf.fit_[0])
    assert table.head[-2] == "all (n = 50)"
