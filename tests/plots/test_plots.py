"""Figures: axes in, axes out, and what they show is what the fit knows."""

import itertools

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import make_column_transformer
from sklearn.datasets import load_iris
from sklearn.decomposition import PCA
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, StandardScaler

from vbsvm import VBSVC, Gibbs, LaplaceZero, Model, VBLogistic, compare, plots
from vbsvm.plots import style

pyplot = pytest.importorskip("matplotlib.pyplot", reason="matplotlib is not installed")
pyplot.switch_backend("Agg")
LineCollection = pytest.importorskip("matplotlib.collections").LineCollection
Figure = pytest.importorskip("matplotlib.figure").Figure


@pytest.fixture(autouse=True)
def _close():
    yield
    pyplot.close("all")


@pytest.fixture(scope="module")
def clf():
    X = np.random.default_rng(0).normal(size=(200, 8))
    return VBSVC(LaplaceZero(0.2)).fit(X, X[:, 2] - X[:, 5] > 0)


@pytest.fixture(scope="module")
def data():
    rng, n = np.random.default_rng(0), 400
    frame = pd.DataFrame({"age": rng.uniform(20, 80, n), "dose": 100 * rng.normal(size=n), "g": rng.integers(0, 20, n)})
    score = 2 * np.sin(frame["age"] / 8) + 0.01 * frame["dose"] + rng.normal(size=20)[frame["g"]]
    frame["y"] = np.where(score + rng.logistic(size=n) > 0, "yes", "no")
    return frame


@pytest.fixture(scope="module")
def fit(data):
    return Model("y ~ dose + s(age) + (dose || g)", data, likelihood="hinge").fit()


@pytest.fixture(scope="module")
def with_missing(data):
    incomplete = data.copy()
    incomplete.loc[::4, "dose"], incomplete.loc[::10, "age"] = np.nan, np.nan
    return Model("y ~ dose + age", incomplete).fit()


@pytest.fixture(scope="module")
def iris():
    X, y = load_iris(return_X_y=True)
    names = np.array(["setosa", "versicolor", "virginica"])[y]
    return VBSVC().fit(X, names), X, names


@pytest.fixture(scope="module")
def drawn(data):
    with pytest.warns(UserWarning, match="chains have not converged"):
        return VBSVC(inference=Gibbs(draws=50, tune=20, chains=3), random_state=0).fit(data[["age", "dose"]], data["y"])


def segments(ax):
    (lines,) = [one for one in ax.collections if isinstance(one, LineCollection)]
    return np.array(lines.get_segments())


def labels(axis):
    return [label.get_text() for label in axis.get_ticklabels()]


def points(ax):
    """All markers of the axes, as x and y."""
    found = [line.get_xydata() for line in ax.lines if line.get_marker() == "o"]
    return np.concatenate(found)


def dots(ax):
    """Markers of a dot plot: kind, whether it is filled, probability and row."""
    return [
        (line.get_marker(), line.get_markerfacecolor() != style.PAPER, *point)
        for line in ax.lines
        if line.get_marker() in ("o", "s")
        for point in line.get_xydata()
    ]


def test_dots_are_the_inclusion_probabilities_in_order_with_signs(clf):
    ax = plots.inclusion(clf)
    found = sorted(dots(ax), key=lambda dot: dot[3])
    chances = clf.inclusion_probability_[0]
    np.testing.assert_allclose([dot[2] for dot in found], np.sort(chances)[::-1], atol=1e-3)
    assert set(labels(ax.yaxis)[:2]) == {"x2", "x5"}
    by_name = dict(zip(labels(ax.yaxis), found, strict=True))
    assert by_name["x2"][:2] == ("o", True)
    assert by_name["x5"][:2] == ("s", True)
    assert not any(filled for name, (_, filled, *_) in by_name.items() if name not in ("x2", "x5"))
    told = [text.get_text() for text in ax.texts]
    assert told[-1] == "per SD"
    assert sorted(one[0] for one in told[:-1] if one) == ["+", "−"]
    assert any(line.get_xdata()[0] == 0.5 for line in ax.lines if len(line.get_xdata()) == 2)


def test_the_top_inputs_are_drawn_into_given_axes(clf):
    _, ax = pyplot.subplots()
    assert plots.inclusion(clf.fit_[0], ax, top=3) is ax
    assert len(dots(ax)) == 3
    assert "3 of 8 shown" in ax.get_xlabel()


def test_a_model_without_gates_is_refused(fit):
    with pytest.raises(ValueError, match=r"fit it with LaplaceZero"):
        plots.inclusion(fit)


def test_a_forest_has_means_and_intervals_for_one_standard_deviation_in_order(fit, data):
    ax = plots.coefficients(fit, level=0.9)
    table, sd = fit.summary(0.9).drop("(intercept)"), data["dose"].std(ddof=0)
    assert labels(ax.yaxis) == [table["estimate"].mul([sd, data["age"].std(ddof=0)]).idxmax(), "s(age) line"]
    row = labels(ax.yaxis).index("dose")
    np.testing.assert_allclose(segments(ax)[row][:, 0], table.loc["dose", ["lower", "upper"]].to_numpy(float) * sd)
    np.testing.assert_allclose(points(ax)[row], [table.loc["dose", "estimate"] * sd, row])
    assert ax.get_ylim()[0] > ax.get_ylim()[1]  # the first at the top
    assert "90 % interval (robust)" in ax.get_xlabel()
    ax = plots.coefficients(fit, level=0.9, covariance="mean-field")
    assert "90 % interval (exact bound: narrow)" in ax.get_xlabel()
    assert ax.get_xlabel().startswith('change in decision value for "yes" per SD\n')


def test_axes_of_coefficients_name_the_modelled_class():
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(120, 2)), columns=["dose", "age"])
    y = np.where(X["dose"] + rng.normal(size=120) > 0, "ill $x$", "case")
    clf, logistic = VBSVC(prior="laplace-zero").fit(X, y), VBLogistic().fit(X, y)
    for fit in (clf, clf.fit_[0]):
        assert plots.inclusion(fit).get_xlabel() == r'inclusion probability for "ill \$x\$"'
        assert plots.coefficients(fit).get_xlabel().startswith(r'change in decision value for "ill \$x\$" per SD')
    assert plots.coefficients(logistic).get_xlabel().startswith(r'log odds ratio of "ill \$x\$" per SD')
    ratios = plots.coefficients(logistic, exponentiate=True, standardized=False)
    assert ratios.get_xlabel().startswith(r'odds ratio of "ill \$x\$" per unit')
    long = Model("y ~ dose", X.assign(y=np.where(y == "case", "no", "yes " * 40)), positive="yes " * 40).fit()
    first = plots.coefficients(long).get_xlabel().split("\n")[0]
    assert first.startswith('log odds ratio of "yes yes')
    several = VBLogistic().fit(X, np.digitize(X["dose"], [-0.5, 0.5]))
    assert plots.coefficients(several, class_=2).get_xlabel().startswith('log odds ratio of "2" per SD')


@pytest.mark.parametrize("factor", [0.1, 1.0, 8.0])
def test_odds_ratios_have_a_logarithmic_axis_with_a_few_labels(factor):
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(300, 3)), columns=["a", "b", "c"])
    clf = VBLogistic().fit(X, factor * X["a"] + rng.logistic(size=300) > 0)
    ax = plots.coefficients(clf, exponentiate=True, standardized=False, ordered=False)
    table = clf.summary().iloc[1:]
    np.testing.assert_allclose(ax.lines[1].get_xdata(), table["odds_ratio"])
    assert ax.lines[0].get_xdata()[0] == 1.0
    assert ax.get_xlabel().startswith('odds ratio of "True" per unit')
    assert ax.get_xscale() == "log"
    low, high = ax.get_xlim()
    assert low < table["odds_ratio_lower"].min()
    assert high > table["odds_ratio_upper"].max()
    assert 2 <= len(ax.get_xticks()) <= 9
    assert "odds ratios" in plots.alt_text(ax)


def test_odds_ratios_are_refused_of_an_svm_and_drawn_of_separated_classes(fit):
    with pytest.raises(ValueError, match="exponentiate=True gives odds ratios"):
        plots.coefficients(fit, exponentiate=True)
    X = pd.DataFrame({"x": np.r_[np.linspace(-3, -1, 30), np.linspace(1, 3, 30)]})
    plots.coefficients(VBLogistic().fit(X, X["x"] > 0), exponentiate=True).figure.canvas.draw()


def test_effects_of_two_predictors_have_a_line_for_each_value_of_the_second(fit, data):
    known = data.assign(arm=np.where(np.arange(len(data)) % 2, "x", "z").astype(object))
    model = Model("y ~ age * arm", known).fit()
    ax = plots.effects(model, ["age", "arm"], at={"age": [0.0, 1.0]})
    table = model.effects(["age", "arm"], at={"age": [0.0, 1.0]})
    for line, level in zip(ax.lines, ("x", "z"), strict=True):
        np.testing.assert_allclose(line.get_ydata(), table.xs(level, level="arm")["estimate"])
    assert ax.get_legend().get_title().get_text() == "arm"
    assert plots.alt_text(ax) == "Average predicted probability by age and arm, with 95 % bands."
    same = plots.effects(model, "age", by={"arm": ["z", "x"]}, at=[0.0, 1.0])
    assert [text.get_text() for text in same.get_legend().get_texts()] == ["z", "x"]
    for line, other in zip(same.lines, ax.lines[::-1], strict=True):
        np.testing.assert_allclose(line.get_ydata(), other.get_ydata())
    for wrong in ([], ["age", "arm", "age"]):
        with pytest.raises((ValueError, TypeError)):
            plots.effects(model, wrong)
    with pytest.raises(ValueError, match="without by"):
        plots.effects(model, ["age", "arm"], by="arm")


def test_a_forest_can_keep_units_order_and_the_largest_only(fit, clf):
    ax = plots.coefficients(fit, standardized=False, ordered=False)
    assert labels(ax.yaxis) == ["dose", "s(age) line"]
    np.testing.assert_allclose(points(ax)[:, 0], fit.coef)
    assert 'change in decision value for "yes" per unit' in ax.get_xlabel()
    assert labels(plots.coefficients(clf, top=2).yaxis) == ["x2", "x5"]


def test_closed_gates_have_open_circles(clf):
    ax = plots.coefficients(clf, ordered=False)
    hollow = [line for line in ax.lines if line.get_marker() == "o" and line.get_markerfacecolor() == style.PAPER]
    np.testing.assert_array_equal(hollow[0].get_ydata(), np.flatnonzero(clf.inclusion_probability_[0] <= 0.5))


def test_intervals_of_a_sampler_are_not_called_narrow(drawn):
    assert plots.coefficients(drawn).get_xlabel().endswith("posterior mean and 95 % interval")


def test_several_classes_need_a_name(iris):
    clf, X, y = iris
    for draw in (plots.coefficients, plots.bound):
        with pytest.raises(ValueError, match=r"class_=…; there are \['setosa', 'versicolor', 'virginica'\]"):
            draw(clf)
    np.testing.assert_allclose(
        points(plots.coefficients(clf, class_="virginica", standardized=False, ordered=False))[:, 0], clf.coef_[2]
    )
    with pytest.raises(ValueError, match="class_=…"):
        plots.calibration(clf, X, y, class_="rose")


def test_a_caterpillar_is_sorted_and_named(fit):
    ax = plots.random_effects(fit)
    table = fit.random_effects("g").xs("(intercept)", level="effect").sort_values("estimate")
    np.testing.assert_allclose(points(ax)[:, 0], table["estimate"])
    assert labels(ax.yaxis) == [str(label) for label in table.index]
    np.testing.assert_allclose(np.ptp(segments(ax)[:, :, 0], axis=1), 2 * 1.959964 * table["std_error"])
    slopes = fit.random_effects("g").xs("dose", level="effect")["estimate"].sort_values()
    np.testing.assert_allclose(points(plots.random_effects(fit, effect="dose"))[:, 0], slopes)


@pytest.mark.parametrize(("n_groups", "n_lines", "n_bands"), [(1, 1, 0), (60, 60, 0), (61, 20, 1), (600, 20, 1)])
def test_of_many_groups_the_ends_are_named_and_the_others_a_band(n_groups, n_lines, n_bands):
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"x": rng.normal(size=1200), "g": np.arange(1200) % n_groups})
    clf = VBSVC(group="g").fit(X, X["x"] + rng.normal(size=1200) > 0)
    ax = plots.random_effects(clf)
    lines = [one for one in ax.collections if isinstance(one, LineCollection)]
    assert sum(len(one.get_segments()) for one in lines) == n_lines
    assert len(ax.collections) - len(lines) == n_bands
    named = [name for name in labels(ax.yaxis) if "more" not in name]
    order = clf.random_effects_["estimate"].sort_values().index
    assert named == [str(one) for one in ([*order[:10], *order[-10:]] if n_bands else order)]
    assert (f"… {n_groups - 20} more …" in labels(ax.yaxis)) == bool(n_bands)
    ax.figure.canvas.draw()
    boxes = [label.get_window_extent() for label in ax.get_yticklabels()]
    assert all(upper.y0 >= lower.y1 - 1 for lower, upper in itertools.pairwise(sorted(boxes, key=lambda box: box.y0)))
    assert ax.figure.get_figheight() < 10
    assert {name for name in labels(plots.random_effects(clf, labels=False).yaxis) if "more" not in name} == {""}


def test_a_factor_that_is_not_there_is_named(fit, clf, data):
    with pytest.raises(ValueError, match="has no grouping factor"):
        plots.random_effects(clf)
    with pytest.raises(ValueError, match=r"factor=…; there are \['g'\]"):
        plots.random_effects(fit, factor="h")
    with pytest.raises(ValueError, match="has no effect 'age'"):
        plots.random_effects(fit, effect="age")


def test_the_elbo_gap_falls_to_the_end(fit, drawn):
    ax = plots.bound(fit)
    known = fit.bounds[np.isfinite(fit.bounds)]
    below = known[-1] - known
    np.testing.assert_allclose(points(ax)[:, 1], below[below > 0])
    assert ax.get_ylim()[0] < ax.get_ylim()[1]
    with pytest.raises(ValueError, match="only available after variational Bayes"):
        plots.bound(drawn)


def test_a_curve_is_what_the_score_changes_by(fit, data):
    ax = plots.spline(fit, level=0.5)
    (curve,) = [line for line in ax.lines if len(line.get_xdata()) > 100]
    x, y = curve.get_data()
    assert (x[0], x[-1]) == (data["age"].min(), data["age"].max())
    score = fit.decision_function(pd.DataFrame({"age": x, "dose": 0.0, "g": -1}))
    np.testing.assert_allclose(y - y[0], score - score[0], atol=1e-9)
    (band,) = ax.collections
    inside = band.get_paths()[0].vertices
    assert inside[:, 1].min() < y.min()
    assert y.max() < inside[:, 1].max()
    assert "50 % band" in ax.get_xlabel()


def test_a_curve_whose_line_is_a_fixed_effect_has_that_line(data):
    fit = Model("y ~ age + s(age) + s(weight)", data.assign(weight=data["dose"])).fit()
    (curve,) = [line for line in plots.spline(fit, term="s(age)").lines if len(line.get_xdata()) > 100]
    x, y = curve.get_data()
    score = fit.decision_function(pd.DataFrame({"age": x, "weight": 0.0}))
    np.testing.assert_allclose(y - y[0], score - score[0], atol=1e-9)
    with pytest.raises(ValueError, match=r"term=…; there are \['s\(age\)', 's\(weight\)'\]"):
        plots.spline(fit)


def test_patterns_of_missing_values_are_squares_with_counts(with_missing):
    ax = plots.missing(with_missing)
    squares = next(line for line in ax.lines if line.get_marker() == "s").get_xydata()
    patterns = with_missing.missing_patterns
    rows, columns = np.nonzero(patterns.patterns.T)
    np.testing.assert_array_equal(squares, np.column_stack([columns, rows]))
    assert labels(ax.yaxis) == ["dose", "age"]
    assert labels(ax.xaxis) == [str(n) for n in patterns.counts]
    assert [text.get_text().split(";")[0] for text in ax.texts] == ["missing", "25 %", "10 %"]
    assert "most common of 4" in plots.missing(with_missing, top=2).get_xlabel()


def test_nothing_missing_is_said(fit):
    with pytest.raises(ValueError, match="no missing values"):
        plots.missing(fit)


def test_calibration_is_the_share_in_bins_of_enough_rows(fit, data):
    ax = plots.calibration(fit, data)
    found, chances, truth = points(ax), fit.predict_proba(data)[:, 1], data["y"] == "yes"
    assert 3 <= len(found) <= 10
    assert np.all(np.diff(found[:, 0]) > 0)
    first = next(below for k in range(1, 10) if (below := chances * 10 < k).sum() >= 20)
    np.testing.assert_allclose(found[0], [chances[first].mean(), truth[first].mean()])
    assert ax.get_xlabel() == "predicted probability of yes"


def test_calibration_of_a_wrong_model_leaves_the_diagonal(fit, data):
    swapped = data.assign(y=np.where(data["y"] == "yes", "no", "yes"))
    right, wrong = (np.abs(np.subtract(*points(plots.calibration(fit, one)).T)).mean() for one in (data, swapped))
    assert wrong > 3 * right


def test_without_rows_those_of_the_fit_are_left_out(fit, iris):
    ax = plots.calibration(fit)
    left_out = fit.left_out_predictions()
    own = np.exp(left_out.log_probability)
    chances = np.where(left_out.labels == "yes", own, 1 - own)
    first = next(below for k in range(1, 10) if (below := chances * 10 < k).sum() >= 20)
    np.testing.assert_allclose(points(ax)[0], [chances[first].mean(), (left_out.labels == "yes")[first].mean()])
    assert ax.get_xlabel().endswith("(leave-one-out)")
    assert "decision value, leave-one-out" in plots.scores(iris[0], class_="setosa").get_xlabel()
    with pytest.raises(ValueError, match=r"has no training data.*Or pass rows"):
        plots.calibration(fit._without_rows())


def test_only_a_hinge_has_margins(data):
    logistic = Model("y ~ dose", data, likelihood="logistic").fit()
    for given in (data, None):
        assert [line.get_xdata()[0] for line in plots.scores(logistic, given).lines] == [0.0]


def test_figures_tell_in_words_what_they_show_and_files_keep_it(fit, clf, data, tmp_path):
    ax = plots.calibration(fit, data)
    assert plots.alt_text(ax) == plots.alt_text(ax.figure)
    assert plots.alt_text(ax).startswith("Observed proportion of yes against its predicted probability")
    _, axes = pyplot.subplots(1, 2)
    plots.coefficients(fit, axes[0])
    plots.spline(fit, axes[1])
    assert "Forest plot" in plots.alt_text(axes[0].figure)
    assert "smooth term s(age)" in plots.alt_text(axes[0].figure)
    plots.save(plots.inclusion(clf), tmp_path / "inclusion.svg")
    assert (
        "Dot plot of the inclusion probabilities of 8 of 8 predictors; 2 are"
        in (tmp_path / "inclusion.svg").read_text()
    )
    plots.save(ax, tmp_path / "calibration.png", dpi=50)
    assert b"Observed proportion of yes" in (tmp_path / "calibration.png").read_bytes()
    assert plots.alt_text(pyplot.figure()) == ""


def test_scores_by_class_are_shares_with_margins(fit, data):
    ax = plots.scores(fit, data)
    outlines = [patch for patch in ax.patches if patch.get_label() and patch.get_label()[0] != "_"]
    assert [patch.get_label() for patch in outlines] == [
        f"{name} (n = {(data['y'] == name).sum()})" for name in ("no", "yes")
    ]
    for patch, name in zip(outlines, ("no", "yes"), strict=True):
        values, edges, _ = patch.get_data()
        assert values.sum() == pytest.approx(1.0)
        scores = np.clip(fit.decision_function(data), edges[0], edges[-1])[data["y"] == name]
        np.testing.assert_allclose(values, np.histogram(scores, edges)[0] / len(scores))
    assert sorted(line.get_xdata()[0] for line in ax.lines) == [-1.0, 0.0, 1.0]


def test_rows_without_known_classes_are_refused(clf, fit, data, iris):
    X = np.random.default_rng(0).normal(size=(10, 8))
    with pytest.raises(ValueError, match="pass y"):
        plots.scores(clf, X)
    with pytest.raises(ValueError, match="rows of both classes"):
        plots.scores(clf, X, np.ones(10, dtype=bool))
    with pytest.raises(ValueError, match="was not a class in fit"):
        plots.scores(clf, X, ["a"] * 10)
    with pytest.raises(ValueError, match="no column 'y'"):
        plots.calibration(fit, data.drop(columns="y"))
    with pytest.raises(TypeError, match="pass a fitted VBSVC"):
        plots.coefficients(VBSVC())


def test_names_are_not_cut_and_dollars_are_not_mathematics(data):
    long = "a name of which no letter may be lost, " * 3 + "$\\alpha_1$ and $5"
    frame = data.rename(columns={"dose": long})
    ax = plots.coefficients(VBSVC().fit(frame[["age", long]], frame["y"]))
    ax.figure.canvas.draw()
    shown = next(label for label in ax.get_yticklabels() if "letter" in label.get_text())
    assert shown.get_text().replace("\n", " ").replace("\\$", "$") == long
    assert ax.figure.bbox.contains(*shown.get_window_extent().min)


def test_an_empty_figure_gets_the_size_that_is_needed(clf):
    small, large = Figure(layout="constrained"), Figure(layout="constrained")
    assert plots.coefficients(clf, small, top=1).figure is small
    plots.coefficients(clf, large)
    assert large.get_figheight() > small.get_figheight() > 0.8
    assert style.svg_of(small) == style.svg_of(small)


def test_of_very_many_incomplete_inputs_those_that_miss_most_are_shown():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(800, 80))
    y = X[:, 0] + rng.logistic(size=800) > 0
    X[rng.random(X.shape) < np.linspace(0.05, 0.01, 80)] = np.nan
    ax = plots.missing(VBSVC().fit(X, y))
    assert len(labels(ax.yaxis)) == 60
    assert labels(ax.yaxis)[0] == "x0"
    assert ax.texts[1].get_text().startswith(f"{100 * np.isnan(X[:, 0]).mean():.0f} %")


def test_what_is_asked_wrongly_is_said(clf, fit):
    with pytest.raises(TypeError, match="this VBSVC is not fitted"):
        plots.coefficients(VBSVC())
    with pytest.raises(TypeError, match="got str"):
        plots.coefficients("clf")
    with pytest.raises(TypeError, match="result of compare"):
        plots.densities(fit)
    with pytest.raises(TypeError, match="ax must be matplotlib axes or an empty figure; got 'age'"):
        plots.spline(fit, "age")
    with pytest.raises(ValueError, match="'yes' is the modelled class: omit class_"):
        plots.coefficients(fit, class_="no")
    assert plots.coefficients(fit, class_="yes") is not None


@pytest.fixture(scope="module")
def calls(clf, fit, data, with_missing, drawn):
    climbed = VBSVC().fit(data[["age", "dose"]], data["y"])
    compared = compare(climbed, drawn)
    shifted = pd.DataFrame({"a": [1.0, 2.0], "b": [0.1, 0.2]}, index=[0.0, 1.0])
    return {
        "coefficients": lambda **given: plots.coefficients(clf, **given),
        "inclusion": lambda **given: plots.inclusion(clf, **given),
        "random_effects": lambda **given: plots.random_effects(fit, **given),
        "spline": lambda **given: plots.spline(fit, **given),
        "missing": lambda **given: plots.missing(with_missing, **given),
        "traces": lambda **given: plots.traces(drawn, **given),
        "ranks": lambda **given: plots.ranks(drawn, **given),
        "densities": lambda **given: plots.densities(compared, **given),
        "sensitivity": lambda **given: plots.sensitivity(shifted, **given),
        "calibration": lambda **given: plots.calibration(fit, data, **given),
        "summary": fit.summary,
        "variance_components": fit.variance_components,
    }


@pytest.fixture(scope="module")
def wide():
    X = np.random.default_rng(0).normal(size=(200, 80))
    return VBSVC(LaplaceZero(0.1)).fit(X, X[:, 7] - X[:, 8] > 0)


@pytest.fixture(scope="module")
def table(data):
    return data[["age", "dose", "g"]].assign(g="level " + (data["g"] % 3).astype(str))


class TestSettings:
    """What is asked for wrongly is refused in words by every figure."""

    @pytest.mark.parametrize("top", [0, -1, 2.5, "3", True, np.nan])
    @pytest.mark.parametrize(
        "what",
        ["coefficients", "inclusion", "random_effects", "missing", "traces", "ranks", "densities", "sensitivity"],
    )
    def test_how_many(self, calls, what, top):
        with pytest.raises(ValueError, match=f"^{what}: top must be a whole number of at least 1"):
            calls[what](top=top)

    @pytest.mark.parametrize("level", [95, 0, 1, -0.5, "95", np.nan, None, True])
    @pytest.mark.parametrize("what", ["coefficients", "spline", "summary", "variance_components"])
    def test_levels(self, calls, what, level):
        with pytest.raises(ValueError, match=f"^{what}: level must be a number between 0 and 1, such as 0.95"):
            calls[what](level=level)

    @pytest.mark.parametrize(
        ("what", "given", "message"),
        [
            ("densities", {"n_columns": 0}, "n_columns must be a whole number"),
            ("calibration", {"n_bins": 2.5}, "n_bins must be a whole number"),
            ("coefficients", {"ordered": "no"}, "ordered must be True or False"),
            ("traces", {"terms": "age"}, r"terms must be a list of names, such as \['age'\]"),
            ("densities", {"terms": "age"}, "terms must be a list of names"),
            ("sensitivity", {"terms": "a"}, "terms must be a list of names"),
            ("sensitivity", {"terms": ["c"]}, r"\['c'\] is not a coefficient: there are \['a', 'b'\]"),
        ],
    )
    def test_other_settings(self, calls, what, given, message):
        with pytest.raises((ValueError, TypeError), match=f"^{what}: {message}"):
            calls[what](**given)

    @pytest.mark.parametrize("top", [np.int64(1), 1, 1000])
    def test_whole_numbers_of_any_kind_are_taken(self, calls, top):
        for what in ("coefficients", "inclusion", "random_effects", "missing", "densities", "sensitivity"):
            assert calls[what](top=top) is not None
            pyplot.close("all")


class TestVeryMany:
    """Of very many the most telling are shown, and the figure says how many there are."""

    def test_coefficients(self, wide):
        ax = plots.coefficients(wide)
        assert len(labels(ax.yaxis)) == 60
        assert "60 of 80 shown, the largest" in ax.get_xlabel()
        assert "x7" in labels(ax.yaxis)
        assert "3 of 80 shown" in plots.coefficients(wide, top=3).get_xlabel()

    def test_inclusion(self, wide):
        ax = plots.inclusion(wide)
        assert len(dots(ax)) == 20
        assert ax.get_xlabel().endswith("20 of 80 shown, the most probable")
        assert set(labels(ax.yaxis)[:2]) == {"x7", "x8"}

    def test_groups(self, fit):
        ax = plots.random_effects(fit, top=3)
        means = fit.random_effects("g").xs("(intercept)", level="effect")["estimate"]
        expected = means[means.abs().nlargest(3).index].sort_values()
        assert labels(ax.yaxis) == [str(label) for label in expected.index]
        assert "3 of 20 shown, the largest" in ax.get_xlabel()

    def test_densities(self, drawn, data):
        found = compare(VBSVC().fit(data[["age", "dose"]], data["y"]), drawn)
        figure = plots.densities(found, top=1)
        assert [ax.get_title() for ax in figure.axes] == [found.table["accuracy"].idxmin()]
        assert figure.legends[0].get_title().get_text() == "1 of 3 shown, those with the lowest accuracy"

    def test_chains(self, drawn):
        axes = plots.traces(drawn, top=2)
        assert len(axes) == 2
        assert "2 of 4 shown, those with the smallest bulk ESS" in axes[0].figure.get_supxlabel()

    def test_shifts(self):
        table = pd.DataFrame(np.ones((2, 30)) * np.arange(30), index=[0.0, 1.0], columns=[f"x{k}" for k in range(30)])
        ax = plots.sensitivity(table)
        assert len(ax.get_legend().get_texts()) == 12
        assert "12 of 30 shown, the largest without shift" in ax.get_xlabel()


class TestPipelines:
    """The last step of a pipeline is drawn, with the names of the columns that reach it."""

    def test_names_are_those_that_reach_the_last_step(self, table, data):
        columns = make_column_transformer(
            (StandardScaler(), ["dose", "age"]), (OneHotEncoder(sparse_output=False), ["g"])
        )
        pipeline = make_pipeline(columns, VBSVC()).fit(table, data["y"])
        shown = [name.replace("\n", "") for name in labels(plots.coefficients(pipeline, ordered=False).yaxis)]
        assert shown == [
            "standardscaler__dose",
            "standardscaler__age",
            *(f"onehotencoder__g_level {k}" for k in range(3)),
        ]
        assert labels(plots.coefficients(pipeline[-1], ordered=False).yaxis) == ["x0", "x1", "x2", "x3", "x4"]
        assert plots.calibration(pipeline, table, data["y"]).get_ylabel() == "observed proportion of yes"

    def test_searches_and_pipelines_in_pipelines(self, table, data):
        inner = make_pipeline(PCA(2), VBSVC())
        search = GridSearchCV(make_pipeline(StandardScaler(), inner), {"pipeline__vbsvc__standardize": [True]}, cv=2)
        search.fit(table[["age", "dose"]], data["y"])
        assert labels(plots.coefficients(search, ordered=False).yaxis) == ["pca0", "pca1"]

    def test_missing_inputs_and_groups_have_their_names(self, table, data):
        incomplete = table.assign(dose=table["dose"].where(table.index % 4 > 0), g=data["g"])
        pipeline = make_pipeline(make_column_transformer(("passthrough", ["g", "dose", "age"])), VBSVC(group=0))
        pipeline.fit(incomplete, data["y"])
        assert labels(plots.missing(pipeline).yaxis)[0] == "passthrough__dose"
        shown = labels(plots.coefficients(pipeline, ordered=False).yaxis)
        assert shown == ["passthrough__dose", "passthrough__age"]

    def test_what_is_not_fitted_or_has_no_names_is_said(self, table, data):
        X, y = table[["age", "dose"]], data["y"]
        for unfitted in (make_pipeline(StandardScaler(), VBSVC()), GridSearchCV(VBSVC(), {"standardize": [True]})):
            with pytest.raises(TypeError, match=f"this {type(unfitted).__name__} is not fitted"):
                plots.coefficients(unfitted)
        with pytest.raises(TypeError, match="this Pipeline ends in LogisticRegression"):
            plots.coefficients(make_pipeline(StandardScaler(), LogisticRegression()).fit(X, y))
        nameless = make_pipeline(FunctionTransformer(np.asarray), VBSVC()).fit(X, y)
        with pytest.raises(ValueError, match="can't name the columns that reach its last step"):
            plots.coefficients(nameless)
        assert plots.scores(nameless, X, y) is not None
        named = make_pipeline(FunctionTransformer(lambda X: X * 2), VBSVC()).set_output(transform="pandas").fit(X, y)
        assert labels(plots.coefficients(named, ordered=False).yaxis) == ["age", "dose"]


def test_effects_are_lines_with_bands_or_points_with_bars(fit, data, iris):
    several, *_ = iris
    ax = plots.effects(fit, "age")
    (line,) = ax.get_lines()
    low, high = np.quantile(data["age"], [0.05, 0.95])
    np.testing.assert_allclose([line.get_xdata()[0], line.get_xdata()[-1]], [low, high])
    table = fit.effects("age", at=list(line.get_xdata()[:2]))
    np.testing.assert_allclose(line.get_ydata()[:2], table["estimate"], rtol=1e-9)
    assert len(ax.collections) == 1
    assert ax.get_ylabel() == "average probability of yes"
    parted = plots.effects(fit, "age", by="site", data=data.assign(site=np.where(data["g"] < 10, "a", "b")))
    assert [text.get_text() for text in parted.get_legend().get_texts()] == ["a", "b"]
    points = plots.effects(fit, "g", at=[1, 2, 3])
    assert [text.get_text() for text in points.get_xticklabels()] == ["1", "2", "3"]
    classes = plots.effects(several, "x0")
    assert len(classes.get_lines()) == 3
    assert len(plots.effects(several, "x0", class_="setosa").get_lines()) == 1


def test_effects_that_can_not_be_drawn_are_refused(fit, iris):
    several, *_ = iris
    with pytest.raises(TypeError, match="pass a fitted VBSVC"):
        plots.effects(LogisticRegression(), "age")
    with pytest.raises(ValueError, match="12 groups"):
        plots.effects(fit, "age", by="g")
    with pytest.raises(ValueError, match="choose the class"):
        plots.effects(several, "x0", by="x1", at=[1], data=np.round(np.full((4, 4), 1.0)))
    with pytest.raises(ValueError, match="no class '9'"):
        plots.effects(several, "x0", class_="9")


def test_sensitivity_draws_its_own_tables_only(data):
    for other in (data, data[["age"]].assign(g="a"), data[["age"]].set_index(data["y"]), data[["age"]][:0]):
        with pytest.raises(TypeError, match="sensitivity: pass the result of sensitivity"):
            plots.sensitivity(other)
