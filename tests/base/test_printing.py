"""Numbers and tables as they are printed: few digits, 80 columns, and nothing hidden; and as HTML in notebooks."""

import math
import pickle
import re
from html.parser import HTMLParser

import numpy as np
import pandas as pd
import pytest

from vbsvm import VBSVC, LaplaceZero, Model, Variational, VBLogistic
from vbsvm.base import printing
from vbsvm.inference.loop import Status
from vbsvm.results import tables

HOSTILE = "<script>alert(1)</script> & <b>"


@pytest.mark.parametrize(
    ("value", "spread", "text"),
    [
        (0.00001234, 0.000002, "1.23e-05"),
        (12345.678, 100.0, "12346"),
        (12345.678, None, "12346"),
        (1234567.0, 10.0, "1.23e+06"),
        (0.396417, 0.0390, "0.3964"),
        (0.067225, 0.2666, "0.067"),
        (41.1753, 0.48, "41.18"),
        (41.1753, 1e-9, "41.18"),
        (-1.0897, 0.3765, "-1.090"),
        (-1e-6, 0.02, "0.0000"),
        (-0.00001, 0.3, "0.000"),
        (-0.0, None, "0"),
        (0.0, 1.0, "0"),
        (1e-200, None, "0"),
        (0.5, 0.0, "0.500"),
        (0.5, math.inf, "0.500"),
        (0.5, math.nan, "0.500"),
        (9.999, None, "10.00"),
        (1.0, None, "1.00"),
        (-2.5e-9, None, "-2.50e-09"),
        (math.nan, 1.0, "–"),
        (math.inf, 1.0, "∞"),
        (-math.inf, None, "-∞"),
    ],
)
def test_numbers_have_the_digits_that_their_spread_asks_for(value, spread, text):
    assert printing.number(value, spread) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [(8.7e-32, "<0.001"), (0.0, "<0.001"), (1.0, ">0.999"), (0.9989, "0.999"), (0.5, "0.500"), (math.nan, "–")],
)
def test_probabilities_have_no_exponents(value, text):
    assert printing.format_probability(value) == text


@pytest.mark.parametrize(
    ("name", "width", "text"),
    [("short", 8, "short"), ("a long name", 8, "a lo…ame"), ("exactly8", 8, "exactly8"), ("abcdefghij", 3, "a…j")],
)
def test_long_names_lose_their_middle(name, width, text):
    assert printing.shorten([name], width) == [text]


@pytest.mark.parametrize(
    "names",
    [
        ["poly(visit, 2)[1]:treatment", "poly(visit, 2)[2]:treatment"],  # differ left of the middle
        ["poly(age, 3)[1]", "poly(age, 3)[2]", "poly(age, 3)[3]"],
        ["a" * 30 + "1" + "a" * 30, "a" * 30 + "2" + "a" * 30],  # in the middle: no cut of the usual width will do
        [f"{j:015d}{k:015d}" for j in range(3) for k in range(3)],
        ["same", "same", "another name that is long"],
    ],
)
@pytest.mark.parametrize("width", [3, 10, 16])
def test_abbreviated_names_stay_distinct(names, width):
    short = printing.shorten(names, width)
    assert len(set(short)) == len(set(names))
    assert [names.index(name) for name in names] == [short.index(name) for name in short]


def test_coefficients_in_a_narrow_table_have_distinct_names():
    names = [f"poly(visit, 2)[{j}]:treatment[terbinafine]" for j in (1, 2)]
    frame = pd.DataFrame({"estimate": [1.5, 2.5], "std_error": [0.1, 0.2]}, index=names)
    printed = {line.partition("  ")[0] for line in printing.table(frame, 50).splitlines() if line.startswith("poly")}
    assert len(printed) == 2


def test_columns_of_a_kind_are_written_alike():
    frame = pd.DataFrame(
        {"estimate": [1.23456], "std_error": [0.01], "p_positive": [1.0], "rhat": [1.00449], "ess_bulk": [412.7]},
        index=["x"],
    )
    assert printing.cells(frame) == [["1.235", "0.0100", ">0.999", "1.004", "413"]]
    assert printing.cells(frame.assign(accuracy=-0.003))[0][-1] == "0.0"


@pytest.mark.parametrize("names", [["x", "y"], ["a name of very many letters, " * 4, "y\nz"]])
@pytest.mark.parametrize("n_columns", [1, 5, 30])
def test_tables_are_80_wide_and_hide_no_column(names, n_columns):
    columns = [f"column {k}" for k in range(n_columns)]
    values = np.arange(2.0 * n_columns).reshape(2, n_columns)
    shown = printing.table(pd.DataFrame(values, index=names, columns=columns))
    assert max(map(len, shown.splitlines())) <= 80
    for column in columns:
        assert shown.count(f"{column} ") + shown.count(f"{column}\n") == 1
    assert "..." not in shown


def test_diagnostics_that_do_not_fit_stand_below_together():
    columns = ["estimate", "std_error", "lower", "upper", "p_positive", "inclusion", "rhat", "ess_bulk", "ess_tail"]
    frame = pd.DataFrame(np.ones((2, 9)), index=["a long name", "z"], columns=columns)
    frame.attrs = {"level": 0.9, "std_error": "posterior sd"}
    upper, lower = printing.table(frame).split("\n\n")
    heads = [re.split("  +", part.split("\n")[0].strip()) for part in (upper, lower)]
    assert heads == [
        ["estimate", "posterior sd", "90 % CI", "P(> 0)", "inclusion"],
        ["R-hat", "bulk ESS", "tail ESS"],
    ]
    assert lower.split("\n")[2].split() == ["z", "1.000", "1", "1"]


def test_a_name_that_goes_on_is_written_once():
    index = pd.MultiIndex.from_tuples([("a", "x"), ("a", "y"), ("b", "y")], names=["term", "effect"])
    shown = printing.table(pd.DataFrame({"std_dev": [1.0, 2.0, 3.0]}, index=index))
    assert [line.split() for line in shown.splitlines()] == [
        ["term", "effect", "std.", "dev."],
        ["a", "x", "1.00"],
        ["y", "2.00"],
        ["b", "y", "3.00"],
    ]


@pytest.fixture(scope="module")
def data():
    rng, n = np.random.default_rng(0), 120
    frame = pd.DataFrame({"x": 1e-5 * rng.normal(size=n), "z": 1e4 * rng.normal(size=n), "g": np.arange(n) % 3})
    frame["y"] = np.where(1e5 * frame["x"] + 1e-4 * frame["z"] + rng.logistic(size=n) > 0, "yes", "no")
    return frame


def test_a_fit_prints_numbers_of_every_size_and_its_note_in_full(data):
    long = "a column with a name that is longer than any table has room for"
    fit = Model(f"y ~ x + z + `{long}` + (z | g)", data.assign(**{long: np.arange(120.0) % 7})).fit()
    shown = str(fit)
    assert max(map(len, shown.splitlines())) <= 80
    assert 'Modelled class: "yes".' in " ".join(shown.split())
    for table in (fit.summary(), fit.variance_components()):
        assert table.attrs["note"].removeprefix('Modelled class: "yes". ') in " ".join(shown.split())
        for heading in printing.headings(table):
            assert heading.removesuffix(", lower").removesuffix(", upper") in shown
    row = next(line for line in shown.splitlines() if line.startswith("z "))
    assert all(float(text) != 0 for text in row.replace(" to ", " ").split()[1:5])


def test_several_starts_are_told():
    X = np.random.default_rng(0).normal(size=(100, 4))
    fit = VBSVC(LaplaceZero(0.3, restarts=2)).fit(X, X[:, 0] > 0).fit_[0]
    for shown in (str(fit), fit._repr_html_()):
        assert f"{len(fit.starts())} starts " in shown


class _Tags(HTMLParser):
    def __init__(self, text):
        super().__init__()
        self.tags, self.words = [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)

    def handle_data(self, data):
        self.words.append(data)


def test_notebooks_get_plain_html_with_names_as_text(data):
    hostile = data.rename(columns={"x": HOSTILE, "g": "<i>g</i>"}).assign(y=np.where(data["y"] == "yes", HOSTILE, "a"))
    model = Model(f"y ~ `{HOSTILE}` + z + (1 | `<i>g</i>`)", hostile, positive=HOSTILE)
    fit = model.fit()
    for page, expected in (
        (model._repr_html_(), ("120 rows", "HalfT")),
        (fit._repr_html_(), ("120 observations", "Converged")),
    ):
        found = _Tags(page)
        assert set(found.tags) <= {
            "div", "p", "strong", "br", "em", "table", "caption", "thead", "tbody", "tr", "th", "td"
        }  # fmt: skip
        words = " ".join(found.words)
        assert HOSTILE in words
        assert all(one in words for one in expected)
    assert _Tags(fit._repr_html_()).tags.count("table") == 2


def test_a_page_of_very_many_coefficients_says_how_many_are_shown():
    X = np.random.default_rng(0).normal(size=(40, 300))
    fit = VBSVC().fit(X, X[:, 0] > 0).fit_[0]
    said = "301 coefficients; shown are the 20 with the largest estimates relative to their standard errors."
    assert f"Coefficients: {said}" in fit._repr_html_()
    for text in (str(fit), repr(fit.summary())):
        assert " ".join(text.split()).count(said) == 1
        assert len({line.split()[0] for line in text.splitlines() if line.startswith(("x", "(intercept)"))}) == 20
        assert "\nx0 " in text
        assert max(map(len, text.splitlines())) <= 80
    assert len(fit.summary()) == 301


def test_of_very_many_coefficients_the_selected_ones_are_shown():
    X = np.random.default_rng(0).normal(size=(100, 100))
    fit = VBSVC("laplace-zero").fit(X, X[:, 0] + X[:, 7] > 0).fit_[0]
    selected = [f"x{k}" for k in np.flatnonzero(fit.inclusion_probability > 0.5)]
    text = str(fit)
    assert [line.split()[0] for line in text.splitlines() if line.startswith("x")] == selected
    assert f"101 coefficients; shown are the {len(selected) + 1} with inclusion probability above 0.5." in text
    table = fit.summary().assign(inclusion=np.r_[np.linspace(0.6, 1.0, 101)])
    rows, which = tables.most_notable(table)
    assert which == "101 coefficients; shown are the 60 with the largest inclusion probabilities."
    assert rows.index.tolist() == table.index[-60:].tolist()
    rows, which = tables.most_notable(table.assign(inclusion=0.1))
    assert len(rows) == 0
    assert "the 0 with inclusion" in which


def test_a_summary_prints_its_intervals_whatever_pandas_hides(data):
    X = np.random.default_rng(0).normal(size=(60, 3))
    frame = VBLogistic().fit(X, X[:, 0] > 0).summary()
    with pd.option_context("display.max_columns", 2, "display.width", 30):
        text = repr(frame)
    assert "…" not in text
    assert "..." not in text
    for name in frame.columns:
        assert name in text
    several = VBSVC().fit(X, np.arange(60) % 3).summary()
    assert "upper" in repr(several)
    assert several.attrs["note"]
    for table in (frame, several):
        assert type(table.round(2)) is type(table.loc[:, ["lower"]]) is pd.DataFrame
        back = pickle.loads(pickle.dumps(table))
        pd.testing.assert_frame_equal(back, table)
        assert repr(back) == repr(table)


@pytest.mark.parametrize(("columns", "width"), [("30", 40), ("90", 90), ("200", 100), ("", 80)])
def test_what_is_printed_is_as_wide_as_the_terminal(columns, width, monkeypatch, data):
    monkeypatch.setenv("COLUMNS", columns)
    assert printing.text_width() == width
    X = np.random.default_rng(0).normal(size=(60, 3))
    fit = VBLogistic().fit(X, X[:, 0] > 0).fit_[0]
    lines = str(fit).splitlines()
    assert width - 15 < max(map(len, lines)) <= width
    assert printing.wrap_text("a " * 100, 20).splitlines()[0] == "a " * 9 + "a"


def test_estimators_keep_the_page_of_scikit_learn(data):
    assert "sk-" in VBSVC().fit(data[["x", "z"]], data["y"])._repr_html_()


@pytest.mark.parametrize(
    ("ending", "words"),
    [(Status.CONVERGED, "Converged in "), (Status.OUT_OF_PASSES, "Not converged: reached the limit of 2 iterations")],
)
def test_how_a_fit_ended_is_said_in_plain_words(data, ending, words):
    inference = Variational() if ending is Status.CONVERGED else Variational(max_iter=2)
    if ending is Status.CONVERGED:
        fit = Model("y ~ x + z", data).fit(inference)
    else:
        with pytest.warns(UserWarning, match="reached max_iter .2 iterations. before it converged to tol"):
            fit = Model("y ~ x + z", data).fit(inference)
    assert fit.outcome.ending is ending
    assert words in repr(fit)
    assert words in str(fit).replace("\n", " ")
