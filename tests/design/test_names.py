"""Names that could be taken for other things: columns, levels, terms and tables stay what they are."""

import re

import numpy as np
import pandas as pd
import pytest

from vbsvm import Gibbs, Model, Ridge, load, plots
from vbsvm.design.formula.terms import FormulaError
from vbsvm.plots import resolve_fit

HELD = {"fixed": Ridge()}


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({name: rng.normal(size=80) for name in ("a", "b", "a:b", "plain")})
    frame["k"], frame["g"] = rng.choice(["u", "v", "w"], 80), rng.integers(0, 8, 80)
    return frame.assign(plain=frame["a:b"], y=(frame["a"] + rng.normal(size=80) > 0).astype(int))


def test_a_level_that_a_formula_leaves_out_is_refused(data):
    row = int(np.argmax(data["k"] == "w"))
    expected = f"C(k, levels=['u', 'v']) leaves out 'w', which column 'k' contains in row {row}"
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


@pytest.mark.parametrize(
    ("text", "name", "read_as"),
    [
        ("y ~ I(ﬁ)", "ﬁ", "fi"),
        ("y ~ I(`ﬁ` + a)", "ﬁ", "fi"),
        ("y ~ a + s(ﬁ)", "ﬁ", "fi"),
        ("y ~ a + (log(ﬁ) | g)", "ﬁ", "fi"),
        ("y ~ I(`my ﬁ`)", "my ﬁ", "my fi"),
        ("y ~ exp(º)", "º", "o"),
        ("y ~ lo𝗀(a)", "lo𝗀", "log"),
        ("y ~ ｅｘｐ(a)", "ｅｘｐ", "exp"),
    ],
)
def test_a_name_that_python_reads_as_another_one_is_refused_in_functions(data, text, name, read_as):
    frame = data.assign(**{"ﬁ": data["a"], "fi": data["b"], "my ﬁ": 1.0, "my_fi": data["b"], "º": 1.0, "o": data["b"]})
    with pytest.raises(FormulaError, match=f"{name!r} has letters that are read as {read_as!r}"):
        Model(text, frame)


@pytest.mark.parametrize("name", ["ﬁ", "º", "lo𝗀", "ｅｘｐ", "True", "None", "if"])
def test_such_a_column_alone_is_itself(data, name):
    frame = data.assign(**{name: data["a"], "fi": data["b"], "o": data["b"]})
    found, expected = (Model(f"y ~ fi + o + `{one}`", frame, HELD).fit() for one in (name, "a"))
    np.testing.assert_array_equal(found.coef, expected.coef)
    if name.isascii():
        with pytest.raises(FormulaError, match="can't stand with"):
            Model(f"y ~ I(`{name}` + a)", frame)


def test_counts_of_missing_values_do_not_hide_inputs_of_their_names(data):
    lost = data.index < 5
    frame = data.assign(rows=data["a"].mask(lost), share=data["b"].mask(lost))
    table = Model("y ~ rows + share", frame, HELD).fit().missing_summary()
    assert list(table.columns) == ["rows", "share", "rows of the pattern", "share of the pattern"]
    assert table["rows"].tolist() == [False, True]
    assert table["rows of the pattern"].tolist() == [75, 5]
    assert list(Model("y ~ rows", frame, HELD).fit().missing_summary().columns) == [
        "rows",
        "rows of the pattern",
        "share",
    ]


def test_a_group_may_be_called_effect(data, tmp_path):
    frame = data.assign(effect=data["g"])
    fit, expected = (Model(f"y ~ a + (a | {name})", frame, HELD).fit() for name in ("effect", "g"))
    np.testing.assert_allclose(fit.random_effects(), expected.random_effects())
    drawn, same = (plots.random_effects(one, effect="a").lines[1].get_xdata() for one in (fit, expected))
    np.testing.assert_allclose(drawn, same)
    fit.report(tmp_path / "page.html")
    both = Model("y ~ a + (1 | effect) + (1 | k)", frame, HELD).fit().random_effects()
    assert set(both.index.get_level_values("group")) == {*map(str, range(8)), "u", "v", "w"}


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("name", ["coefficients", "intercept", "chain", "term"])
def test_a_group_called_like_what_is_exported_keeps_its_own_place(data, name):
    fit = Model(f"y ~ a + (1 | {name})", data.assign(**{name: data["g"]}), HELD)
    draws = fit.fit(Gibbs(draws=10, tune=5, chains=2), random_state=0).to_arviz().posterior
    assert draws["coefficients"].shape == (2, 10, 1)
    assert draws["intercept"].shape == (2, 10)
    assert draws[f"groups of {name}"].shape == (2, 10, 8)


def test_outcomes_that_were_not_in_fit_are_refused_in_figures(data, tmp_path):
    fit = Model("y ~ a", data, HELD).fit()
    new = data.assign(y=data["y"].where(data.index != 3, 7))
    with pytest.raises(ValueError, match=r"report: y holds 7, which was not a class in fit; the classes are \[0, 1\]"):
        fit.report(tmp_path / "page.html", new)
    rest = Model("y ~ a", new, HELD, positive=1).fit()
    found = resolve_fit.predicted("calibration", rest, new.assign(y=new["y"].where(data.index != 4, 9)))
    assert found.positive.sum() == (new["y"].drop(4) == 1).sum()
