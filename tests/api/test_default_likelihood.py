"""A Model is logistic wherever it is made, unless the hinge is asked for; the first line of a fit names which it is."""

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

from vbsvm import VBSVC, Files, Model, Normal, VBLogistic, cross_validate, load
from vbsvm.cli import main
from vbsvm.datasets import load_toenail

TOENAIL = "outcome ~ visit * treatment + (1 | patientID)"
WHEN_NOT = "docs/when-not.md"


@pytest.fixture(scope="module")
def data():
    rng, n = np.random.default_rng(0), 200
    found = pd.DataFrame({"x": rng.normal(size=n), "z": rng.normal(size=n), "g": np.arange(n) % 20})
    score = found["x"] - found["z"] + rng.normal(size=20)[found["g"]]
    return found.assign(arm=rng.choice(["a", "b"], n), y=np.where(score + rng.logistic(size=n) > 0, "yes", "no"))


def words(fitted):
    """What it prints, without line breaks."""
    return " ".join(str(fitted).split())


def is_logistic(fit):
    """Whether the model has a likelihood of its own, and its table odds ratios."""
    assert fit.spec.likelihood.normalised == ("odds_ratio" in fit.summary())
    return fit.spec.likelihood.normalised


class TestPython:
    def test_the_default_is_the_logistic_model(self, data):
        fit, asked = (Model("y ~ x + (1 | g)", data, **one).fit() for one in ({}, {"likelihood": "logistic"}))
        assert is_logistic(fit)
        pd.testing.assert_frame_equal(fit.summary(), asked.summary())
        assert not is_logistic(Model("y ~ x + (1 | g)", data, likelihood="hinge").fit())

    def test_so_it_is_for_rows_in_files(self, data, tmp_path):
        data.to_csv(tmp_path / "rows.csv", index=False)
        assert is_logistic(Model("y ~ x + z", Files(tmp_path / "rows.csv")).fit())
        assert not is_logistic(Model("y ~ x + z", Files(tmp_path / "rows.csv"), likelihood="hinge").fit())

    def test_refits_keep_the_likelihood(self, data):
        found = {}
        for likelihood in ("logistic", "hinge"):
            model = Model("y ~ x + z", data, likelihood=likelihood)
            assert model.refitted_to(data, np.ones(len(data))).spec.likelihood == model.spec.likelihood
            found[likelihood] = cross_validate(model, folds=3, random_state=0).predictions
        default = cross_validate(Model("y ~ x + z", data), folds=3, random_state=0).predictions
        pd.testing.assert_frame_equal(default, found["logistic"])
        assert not default.equals(found["hinge"])

    def test_sensitivity_shifts_the_model_of_the_default(self, data):
        lost = data.assign(x=data["x"].mask(np.arange(200) % 5 == 0))
        table = Model("y ~ x + z", lost).sensitivity([0.0])
        assert table.loc[0.0, "z"] == pytest.approx(Model("y ~ x + z", lost).fit().summary().loc["z", "estimate"], 1e-3)

    def test_files_keep_their_likelihood(self, data, tmp_path):
        for likelihood in ("logistic", "hinge"):
            fit = Model("y ~ x + (1 | g)", data, likelihood=likelihood).fit()
            fit.save(tmp_path / likelihood)
            found = load(tmp_path / likelihood)
            assert is_logistic(found) == (likelihood == "logistic")
            assert repr(found) == repr(fit)

    def test_the_hinge_is_the_mixed_support_vector_machine_as_before(self):
        toenail = load_toenail()
        fit = Model(TOENAIL, toenail, likelihood="hinge").fit()
        found = fit.summary()
        np.testing.assert_allclose(found["estimate"], [0.0735, 0.7008, -0.101, 0.177], atol=1e-3)
        np.testing.assert_allclose(found["std_error"], [0.432, 0.0966, 0.647, 0.158], rtol=0.02)
        assert fit.elbo == pytest.approx(-1018.24, abs=0.01)
        alone = toenail[["visit", "patientID"]]
        clf = VBSVC(Normal(1e8), group="patientID").fit(alone, toenail["outcome"])
        fit = Model("outcome ~ visit + (1 | patientID)", toenail, likelihood="hinge").fit()
        np.testing.assert_allclose(fit.decision_function(toenail), clf.decision_function(alone), atol=1e-3)


class TestFirstLine:
    KINDS = (
        (
            "y ~ x + (1 | g)",
            "logistic",
            "Mixed-effects logistic regression: y ~ x + (1 | g). 200 observations, 20 levels of g. ",
        ),
        (
            "y ~ x + (1 | g)",
            "hinge",
            "Mixed support vector machine: y ~ x + (1 | g). 200 observations, 20 levels of g. ",
        ),
        ("y ~ x + z", "logistic", "Logistic regression: y ~ x + z. 200 observations. "),
        ("y ~ x + z", "hinge", "Support vector machine: y ~ x + z. 200 observations. "),
    )

    @pytest.mark.parametrize(("formula", "likelihood", "begin"), KINDS)
    def test_it_names_the_kind_of_model(self, data, formula, likelihood, begin):
        model = Model(formula, data, likelihood=likelihood)
        fit = model.fit()
        begin = f'{begin}Modelled class: "yes". Converged in {fit.outcome.passes} iterations'
        assert words(fit).startswith(begin)
        assert repr(fit).startswith(f"<{begin}")
        kind = begin.partition(".")[0]
        assert words(model).startswith(kind)
        assert f"<strong>{kind}</strong>" in fit._repr_html_()
        assert f"<strong>{kind}</strong>" in model._repr_html_()

    def test_only_a_support_vector_machine_points_to_where_it_misleads(self, data):
        for likelihood, points in (("hinge", True), ("logistic", False)):
            fit = Model("y ~ x + z", data, likelihood=likelihood).fit()
            assert (WHEN_NOT in str(fit)) == (WHEN_NOT in fit._repr_html_()) == points

    def test_estimators_have_the_same(self, data):
        for kind, name in ((VBSVC, "support vector machine"), (VBLogistic, "logistic regression")):
            fit = kind().fit(data[["x", "z"]], data["y"]).fit_[0]
            assert words(fit).startswith(f"{name.capitalize()}: 2 predictors. 200 observations. Modelled class: ")
            fit = kind(group="g").fit(data[["x", "g"]], data["y"]).fit_[0]
            assert (
                words(fit)
                .lower()
                .startswith(("mixed " if kind is VBSVC else "mixed-effects ") + name + ": 1 predictor. ")
            )

    def test_rows_that_were_left_out_are_counted(self, data):
        lost = data.assign(x=data["x"].mask(np.arange(200) == 3))
        assert "199 observations, 1 observation with missing values dropped." in words(
            Model("y ~ x", lost, missing="drop").fit()
        )

    def test_the_report_begins_with_it(self, data, tmp_path):
        pytest.importorskip("jinja2")
        for likelihood, kind in (
            ("logistic", "Mixed-effects logistic regression"),
            ("hinge", "Mixed support vector machine"),
        ):
            Model("y ~ x + (1 | g)", data, likelihood=likelihood).fit().report(tmp_path / f"{likelihood}.html")
            assert f"{kind} for y</h1>" in (tmp_path / f"{likelihood}.html").read_text(encoding="utf-8")


class TestCommandLine:
    @pytest.mark.parametrize("name", ["rows.csv", "*.csv"], ids=["memory", "files"])
    @pytest.mark.parametrize(
        ("options", "kind"),
        [
            (["--formula", "y ~ x + (1 | g)"], "Mixed-effects logistic regression: y ~ x + (1 | g). "),
            (["--formula", "y ~ x", "--likelihood", "hinge"], "Support vector machine: y ~ x. "),
            (["--target", "y", "--drop", "arm"], "Support vector machine: 3 predictors. "),
            (["--target", "y", "--drop", "arm", "--likelihood", "logistic"], "Logistic regression: 3 predictors. "),
            (["--target", "y"], "Logistic regression: `y` ~ "),
            (["--target", "y", "--likelihood", "hinge"], "Support vector machine: `y` ~ "),
        ],
    )
    def test_a_formula_is_logistic_and_columns_are_a_support_vector_machine(self, data, tmp_path, options, kind, name):
        data.to_csv(tmp_path / "rows.csv", index=False)
        done = CliRunner().invoke(main, ["fit", str(tmp_path / name), *options])
        assert done.exit_code == 0, done.output
        assert words(done.stdout).startswith(kind)
        assert (WHEN_NOT in done.stdout) == ("upport" in kind)
