"""The command line: what it writes, and what it says when something is wrong."""

import bz2
import csv
import gzip
import io
import json
import lzma
import re
import shlex
import subprocess
import sys
import warnings
import zipfile
from decimal import Decimal
from inspect import signature
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from click import ClickException
from click.testing import CliRunner

import vbsvm
from saved_models import incomplete, table
from vbsvm import VBSVC, Fit, HalfT, LaplaceZero, Model, load
from vbsvm.cli import main, tables
from vbsvm.cli.__init__ import with_cli_notes, with_cli_options
from vbsvm.cli.models import text_inputs
from vbsvm.datasets import load_toenail

# Before version 8.2 click mixes both streams unless it is told not to.
RUNNER = CliRunner(**({"mix_stderr": False} if "mix_stderr" in signature(CliRunner).parameters else {}))
HEAVY = ("pandas", "sklearn", "matplotlib", "scipy", "formulaic", "jinja2", "numpy")


def run(*arguments, code=0, stdin=None):
    """Run a command in this process; what it does not foresee is raised."""
    found = RUNNER.invoke(main, [str(one) for one in arguments], prog_name="vbsvm", input=stdin)
    if found.exception is not None and not isinstance(found.exception, SystemExit):
        raise found.exception
    if found.exit_code != code and "pip install" in found.stderr:
        raise ImportError(found.stderr)  # a package is missing, as tests/conftest.py is to know
    assert found.exit_code == code, found.output
    return found


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A directory with a table of numbers and text, one of numbers, one with missing values, and two models."""
    place = tmp_path_factory.mktemp("command line")
    data = table()
    data.to_csv(place / "data.csv", index=False)
    data[["a", "b", "k", "y", "three"]].to_csv(place / "numbers.csv", index=False)
    incomplete(data, "a", "h").to_csv(place / "incomplete.csv", index=False)
    data.assign(y=data["y"].mask(np.arange(len(data)) < 5)).to_csv(place / "outcomes.csv", index=False)
    for name in ("data.xlsx", "data.json", "data"):
        (place / name).touch()
    run("fit", place / "data.csv", "--formula", "y ~ a + h + s(b) + (1 | g)", "--out", place / "formula.vbsvm")
    run("fit", place / "numbers.csv", "--target", "three", "--drop", "y", "--out", place / "classes.vbsvm")
    return place


def predicted(place, model, *options, data="data.csv"):
    return pd.read_csv(io.StringIO(run("predict", place / model, place / data, *options).stdout))


def test_a_formula_is_fitted_as_in_python_shown_and_saved(place, tmp_path):
    formula = "y ~ a + h + s(b) + (1 | g)"
    expected = Model(formula, table()).fit()
    shown = run("fit", place / "data.csv", "--formula", formula, "--out", tmp_path / "m")
    summary = run("summary", tmp_path / "m").stdout
    assert summary == f"{with_cli_notes(str(expected))}\n"
    named = 'Modelled class: "yes"'
    with_option = summary.replace(f"{named}.", f"{named} (choose with --positive).")
    assert with_option.split() == shown.stdout.split() != summary.split()
    assert "--covariance" in shown.stdout
    assert "covariance=" not in shown.stdout
    assert f"Wrote {tmp_path / 'm'}." in shown.stderr
    np.testing.assert_allclose(load(tmp_path / "m").coef, expected.coef, rtol=1e-9)


def test_predictions_are_those_of_python(place):
    fit = load(place / "formula.vbsvm")
    found = predicted(place, "formula.vbsvm", "--proba", "--scores", "--keep", "w", "--keep", "g")
    assert list(found) == ["w", "g", "prediction", "score", "probability no", "probability yes"]
    np.testing.assert_array_equal(found["prediction"], fit.predict(table()))
    np.testing.assert_allclose(found["score"], fit.decision_function(table()), rtol=1e-12)
    np.testing.assert_allclose(found[["probability no", "probability yes"]], fit.predict_proba(table()), rtol=1e-12)


def test_several_classes_of_numbers_are_fitted_against_each_other(place):
    clf = VBSVC().fit(table()[["a", "b", "k"]], table()["three"])
    found = predicted(place, "classes.vbsvm", "--scores", "--proba", data="numbers.csv")
    assert list(found)[:4] == ["prediction", "score 0", "score 1", "score 2"]
    np.testing.assert_allclose(found.iloc[:, 1:4], clf.decision_function(table()[["a", "b", "k"]]), rtol=1e-9)
    np.testing.assert_allclose(found.iloc[:, 4:].sum(axis=1), 1.0)
    shown = " ".join(run("summary", place / "classes.vbsvm").stdout.split())
    assert shown.startswith(
        "Support vector machine: 3 predictors. 120 observations. One model for each class of 0, 1, 2"
    )
    assert "against the rest. Converged in up to " in shown


def test_text_columns_become_categories_beside_groups(place, tmp_path):
    said = run("fit", place / "data.csv", "--target", "y", "--group", "g", "--drop", "three", "--out", tmp_path / "m")
    assert "text columns are used as categories (h, w)" in said.stderr
    data = table().drop(columns="three")
    expected = Model("y ~ . + (1 | g)", data.assign(c=data["c"].astype(int)), {"fixed": HalfT()}).fit()
    pd.testing.assert_frame_equal(load(tmp_path / "m").summary(), expected.summary(), rtol=1e-6)


def test_groups_weights_and_selection_go_with_a_target(place, tmp_path):
    numbers = table()[["a", "b", "k", "g", "y"]]
    numbers.to_csv(tmp_path / "n.csv", index=False)
    run(
        "fit",
        tmp_path / "n.csv",
        "--target",
        "y",
        "--select",
        "--weights",
        "k",
        "--group",
        "g",
        "--out",
        tmp_path / "m",
    )
    expected = VBSVC(LaplaceZero(), group="g").fit(numbers[["a", "b", "g"]], numbers["y"], sample_weight=numbers["k"])
    np.testing.assert_allclose(load(tmp_path / "m").inclusion_probability_, expected.inclusion_probability_, rtol=1e-6)
    found = load(tmp_path / "m")
    assert (found.group, found.prior) == ("g", LaplaceZero())


def test_a_selection_is_shown_by_inclusion_and_the_modelled_class_is_named(tmp_path):
    rng = np.random.default_rng(0)
    data = pd.DataFrame(rng.normal(size=(150, 6)), columns=list("abcdef"))
    data["y"] = np.where(3 * data["e"] + rng.logistic(size=150) > 0, "case", "control")
    data.to_csv(tmp_path / "d.csv", index=False)
    shown = run("fit", tmp_path / "d.csv", "--target", "y", "--select").stdout
    assert 'Modelled class: "control" (choose with --positive).' in " ".join(shown.split())
    lines = re.findall(r"^[a-f] .*", shown, re.MULTILINE)
    assert lines[0].startswith("e")
    assert sorted(line[0] for line in lines) == list("abcdef")
    assert "e-" not in "".join(lines)
    assert "<0.001" in lines[-1]
    given = run("fit", tmp_path / "d.csv", "--target", "y", "--positive", "case").stdout
    assert "choose with" not in given


@pytest.mark.parametrize("label", ["2", "2.0"])
def test_one_of_several_classes_is_set_against_the_rest(label, place, tmp_path):
    run("fit", place / "numbers.csv", "--formula", "three ~ a", "--positive", label, "--out", tmp_path / "m")
    assert load(tmp_path / "m").classes.tolist() == ["not 2", 2]
    run("fit", place / "numbers.csv", "--target", "three", "--positive", label, "--out", tmp_path / "m", "--force")
    assert isinstance(load(tmp_path / "m"), Fit)


@pytest.mark.filterwarnings("default")
def test_gibbs_draws_and_warnings_are_one_line(place, tmp_path):
    options = ("--gibbs", "--draws", 20, "--tune", 5, "--chains", 2, "--seed", 3)
    said = run("fit", place / "numbers.csv", "--formula", "y ~ a", *options, "--out", tmp_path / "m")
    assert said.stderr.startswith("Warning: Chains have not converged")
    assert "Increase the number of draws, as with --draws 80 --tune 10, or" in said.stderr
    assert load(tmp_path / "m").outcome.coefficients.shape == (2, 20, 2)


def test_missing_categories_in_a_folder_of_files(tmp_path):
    rng = np.random.default_rng(0)
    data = pd.DataFrame({"x": rng.normal(size=120), "arm": rng.choice(list("abc"), size=120)})
    data["y"] = np.where(data["x"] + (data["arm"] == "a") + rng.logistic(size=120) > 0, "yes", "no")
    data.loc[::5, "arm"] = None
    (tmp_path / "d").mkdir()
    data[:50].to_csv(tmp_path / "d" / "a.csv", index=False)
    data[50:].to_csv(tmp_path / "d" / "b.csv", index=False)
    data.to_csv(tmp_path / "all.csv", index=False)
    for name in ("d", "all.csv"):
        run("fit", tmp_path / name, "--formula", "y ~ x + arm", "--out", tmp_path / f"{name}.vbsvm")
    one, two = (vbsvm.load(tmp_path / f"{name}.vbsvm") for name in ("d", "all.csv"))
    np.testing.assert_allclose(one.coef, two.coef, atol=1e-3)
    run("predict", tmp_path / "d.vbsvm", tmp_path / "d", "--out", tmp_path / "p.csv")
    assert list(pd.read_csv(tmp_path / "p.csv")["prediction"]) == list(one.predict(data))


@pytest.mark.parametrize("ending", ["csv", "tsv", "csv.gz", "parquet", "feather", "arrow"])
def test_tables_are_read_by_their_ending(ending, place, tmp_path):
    data, path = table().drop(columns="c"), tmp_path / f"data.{ending}"
    if ending == "parquet":
        data.to_parquet(path)
    elif ending in ("feather", "arrow"):
        data.to_feather(path)
    else:
        data.to_csv(path, index=False, sep="\t" if ending == "tsv" else ",")
    found = run("predict", place / "formula.vbsvm", path)
    assert found.stdout == run("predict", place / "formula.vbsvm", place / "data.csv").stdout


@pytest.mark.parametrize("ending", ["csv", "tsv", "parquet", "feather"])
def test_predictions_are_written_by_the_ending(ending, place, tmp_path):
    out = tmp_path / f"p.{ending}"
    assert run("predict", place / "formula.vbsvm", place / "data.csv", "--scores", "--out", out).stdout == ""
    readers = {"parquet": pd.read_parquet, "feather": pd.read_feather, "tsv": lambda path: pd.read_csv(path, sep="\t")}
    pd.testing.assert_frame_equal(
        readers.get(ending, pd.read_csv)(out), predicted(place, "formula.vbsvm", "--scores"), check_dtype=False
    )


def test_a_table_comes_from_stdin(place):
    text = (place / "data.csv").read_text()
    found = run("predict", place / "formula.vbsvm", "-", stdin=text)
    assert found.stdout == run("predict", place / "formula.vbsvm", place / "data.csv").stdout


def test_empty_cells_are_missing_values(place, tmp_path):
    run("fit", place / "incomplete.csv", "--formula", "y ~ a + h", "--out", tmp_path / "m")
    found = predicted(place, tmp_path / "m", data="incomplete.csv")
    assert len(found) == len(table())
    assert set(found["prediction"]) == {"no", "yes"}


def test_rows_without_an_outcome_are_refused_or_left_out_and_columns_without_a_name_are_left_out(place, tmp_path):
    data = table()[["a", "b", "y"]]
    data.loc[[3, 4], "y"] = None
    data.to_csv(tmp_path / "d.csv")
    fit = ("fit", tmp_path / "d.csv", "--target", "y", "--out", tmp_path / "m")
    said = run(*fit, code=1).stderr
    assert "The outcome 'y' is missing in 2 rows (rows 3, 4)." in said
    assert "--drop-missing-outcome" in said
    said = run(*fit, "--drop-missing-outcome").stderr
    assert "2 rows without a value of 'y' left out" in said
    assert "column 1 has no name in the header and is left out" in said
    assert list(load(tmp_path / "m").feature_names_in_) == ["a", "b"]


def test_words_among_numbers_are_told(place, tmp_path):
    data = table()[["a", "b", "h", "y"]]
    data["b"] = data["b"].round(1).astype(str)
    data.loc[[3, 9], "b"] = "?"
    data.to_csv(tmp_path / "d.csv", index=False)
    said = run("fit", tmp_path / "d.csv", "--target", "y").stderr
    assert "column 'b' is read as text because of '?' among its numbers" in said
    assert said.count("because of") == 1


def test_only_empty_cells_are_missing_in_text_and_marks_are_among_numbers(tmp_path):
    marks = ["", "NA", "NaN", "nan", "N/A", "n/a", "null", "None"]
    n = len(marks)
    told = pd.DataFrame({"text": marks, "number": marks, "flag": marks, "whole": [str(k) for k in range(n)]})
    told.loc[n] = ["low", "1.5", "True", "8"]
    told.to_csv(tmp_path / "d.csv", index=False)
    for found in (tables.read(str(tmp_path / "d.csv")), tables.read(str(tmp_path / "d.csv"), ["whole"])):
        assert found["text"].isna().sum() == 1
        assert found["text"].iloc[1:].tolist() == [*marks[1:], "low"]
        assert found["number"].dtype == np.float64
        assert found["number"].dropna().tolist() == [1.5]
        assert found["flag"].dropna().tolist() == [True]
        assert list(found) == list(told)
    assert found["whole"].tolist() == told["whole"].tolist()


def test_the_category_none_is_a_category(place, tmp_path):
    data = table()[["a", "h", "y"]].replace({"h": {"low": "None"}})
    data.to_csv(tmp_path / "d.csv", index=False)
    run("fit", tmp_path / "d.csv", "--formula", "y ~ a + h", "--out", tmp_path / "m")
    assert "h[T.high]" in load(tmp_path / "m").summary().index
    found = run("predict", tmp_path / "m", "-", stdin="a,h\n10,None\n10,None\n").stdout
    assert found.splitlines()[1:] == load(tmp_path / "m").predict(pd.DataFrame({"a": 10.0, "h": ["None"] * 2})).tolist()


@pytest.mark.parametrize("ending", ["csv", "parquet"])
@pytest.mark.parametrize("how", ["category", "group", "classifier"])
def test_text_of_the_fit_is_text_where_a_file_holds_numbers_only(how, ending, tmp_path):
    data = table()[["a", "b", "y"]].assign(t=np.resize(["1", "2", "3a"], 120))
    data.to_csv(tmp_path / "d.csv", index=False)
    asked = {
        "category": ("--formula", "y ~ a + C(t)"),
        "group": ("--formula", "y ~ a + (1 | t)"),
        "classifier": ("--target", "y", "--group", "t"),
    }[how]
    run("fit", tmp_path / "d.csv", *asked, "--out", tmp_path / "m")
    few = data[data["t"] != "3a"]
    if ending == "csv":
        few.to_csv(tmp_path / "few.csv", index=False)
    else:
        few.assign(t=few["t"].astype(int)).to_parquet(tmp_path / "few.parquet")
    found = predicted(tmp_path, "m", "--scores", "--keep", "t", data=f"few.{ending}")
    inputs = few[["a", "b", "t"]] if how == "classifier" else few
    np.testing.assert_allclose(found["score"], load(tmp_path / "m").decision_function(inputs), rtol=1e-9)
    options = ("--target", "y") if how == "classifier" else ()
    run("report", tmp_path / "m", "--data", tmp_path / f"few.{ending}", *options, "--out", tmp_path / "r.html")


def test_categories_of_numbers_are_read_as_numbers(place, tmp_path):
    Model("y ~ a + C(c) + (1 | g)", table()).fit().save(tmp_path / "m")
    expected = load(tmp_path / "m").decision_function(table())
    np.testing.assert_allclose(predicted(place, tmp_path / "m", "--scores")["score"], expected, rtol=1e-9)


def test_classes_that_are_text_are_text_in_a_report(tmp_path):
    data = table()[["a", "b", "y"]].replace({"y": {"yes": "1", "no": "0x"}})
    data.to_csv(tmp_path / "d.csv", index=False)
    data[data["y"] == "1"].to_csv(tmp_path / "few.csv", index=False)
    for asked in (("--formula", "y ~ a"), ("--target", "y")):
        run("fit", tmp_path / "d.csv", *asked, "--out", tmp_path / "m", "--force")
        fitted = load(tmp_path / "m")
        assert tables.read(str(tmp_path / "few.csv"), text_inputs(fitted, "y"))["y"].tolist()[:1] == ["1"]


def test_a_comma_at_the_end_of_each_row_shifts_nothing(tmp_path):
    (tmp_path / "d.csv").write_text("a,b\n1,x,\n2,,\n3,NA,\n")
    found = tables.read(str(tmp_path / "d.csv"))
    assert found["a"].tolist() == [1, 2, 3]
    assert found["b"].dropna().tolist() == ["x", "NA"]


@pytest.mark.parametrize("lost", ["outcome", "input"])
@pytest.mark.parametrize("asked", [("--target", "y"), ("--formula", "y ~ a + flag")])
def test_booleans_may_have_empty_cells(lost, asked, tmp_path):
    data = table()[["a", "flag", "y"]].astype({"flag": object})
    data["y"] = (data["y"] == "yes").astype(object)
    data.loc[3, "y" if lost == "outcome" else "flag"] = None
    data.to_csv(tmp_path / "d.csv", index=False)
    leave = ("--drop-missing-outcome",) if lost == "outcome" else ()
    run("fit", tmp_path / "d.csv", *asked, *leave, "--out", tmp_path / "m")
    assert set(predicted(tmp_path, "m", data="d.csv")["prediction"]) == {False, True}
    options = ("--target", "y", *leave) if asked[0] == "--target" else leave
    run("report", tmp_path / "m", "--data", tmp_path / "d.csv", *options, "--out", tmp_path / "r.html")


# What goes wrong


@pytest.mark.parametrize("asked", [("--formula", "y ~ a + (1 | g)"), ("--target", "y", "--group", "g")])
def test_rows_in_errors_are_those_of_the_file(asked, place, tmp_path):
    data = table()[["a", "g", "y"]].astype({"g": object})
    data.loc[[3, 7], "y"] = None
    data.loc[[7, 10], "g"] = None
    data.to_csv(tmp_path / "d.csv", index=False)
    said = run("fit", tmp_path / "d.csv", *asked, "--drop-missing-outcome", code=1).stderr
    assert re.search(r"\brow 10\b", said)


def test_rows_are_numbered_wherever_an_error_names_them():
    rows = [2 * k for k in range(20)]
    with pytest.raises(ClickException) as found, tables.file_row_numbers(rows):
        raise ValueError("In row 3, rows 1, 2 and 10 more, rows 0 and 5 of column 'row 4', row 99: 12 rows.")
    assert found.value.message == "In row 6, rows 2, 4 and 10 more, rows 0 and 10 of column 'row 4', row 99: 12 rows."


@pytest.mark.parametrize(
    ("model", "name"), [("formula", "score"), ("formula", "prediction"), ("classes", "probability 1")]
)
def test_columns_that_are_kept_are_not_written_over(model, name, place, tmp_path):
    table().assign(**{name: 1.0}).to_csv(tmp_path / "d.csv", index=False)
    keep = ("predict", place / f"{model}.vbsvm", tmp_path / "d.csv", "--keep", name)
    assert f"--keep: {name!r} is the name" in run(*keep, "--scores", "--proba", code=1).stderr
    if name == "score":
        assert run(*keep).stdout.startswith("score,prediction\n1.0,")


def test_numbers_that_overflow_are_told(place, monkeypatch):
    def overflown(*arguments, **options):
        raise FloatingPointError("Numbers overflow.")

    monkeypatch.setattr(Model, "fit", overflown)
    assert run("fit", place / "data.csv", "--formula", "y ~ a", code=1).stderr == "Error: Numbers overflow.\n"


def test_a_file_is_not_replaced_unless_it_is_asked_for(place, tmp_path):
    (tmp_path / "m").write_bytes(b"as it was")
    fit = ("fit", place / "numbers.csv", "--target", "y", "--drop", "three", "--out", tmp_path / "m")
    assert "--force" in run(*fit, code=1).stderr
    assert (tmp_path / "m").read_bytes() == b"as it was"
    run(*fit, "--force")
    predict = ("predict", tmp_path / "m", place / "numbers.csv", "--out", tmp_path / "p.csv")
    run(*predict)
    assert "p.csv exists already: add --force to replace it." in run(*predict, code=1).stderr


def failing(place):
    data, model = place / "data.csv", place / "formula.vbsvm"
    return {
        "There is no file": ("fit", place / "nothing.csv", "--target", "y"),
        "There is no file ": ("predict", place / "nothing.vbsvm", data),
        "can't be read as a model file": ("predict", data, data),
        "can't be read as a model file:": ("summary", data),
        "no column 'Y'. Did you mean 'y'?": ("fit", data, "--target", "Y"),
        "no column 'thre'. Did you mean 'three'?": ("fit", data, "--target", "y", "--drop", "thre"),
        "column 'patient'. There are a, b": ("fit", data, "--target", "y", "--group", "patient"),
        "Did you mean 'flag'?": ("fit", data, "--formula", "y ~ a + flg"),
        "is not a known function": ("fit", data, "--formula", "y ~ a + {__import__('os')}"),
        "one ~": ("fit", data, "--formula", "y"),
        "is also on the right of ~": ("fit", data, "--formula", "y ~ y"),
        "--memory-limit must be at least 100MB; got '5'.": ("fit", data, "--target", "y", "--memory-limit", "5"),
        "a formula takes two: use --target": ("fit", data, "--formula", "three ~ a"),
        "--weights: column 'h' holds text": ("fit", data, "--formula", "y ~ a", "--weights", "h"),
        "has 3 classes, and there are text columns": ("fit", data, "--target", "three"),
        "--positive: 'maybe' is not a value of 'y'; its values are no, yes.": (
            *("fit", data, "--formula", "y ~ a"), *("--positive", "maybe"),
        ),
        "lacks: there is no column 'h'": ("predict", model, place / "numbers.csv"),
        "--keep: there is no column 'id'": ("predict", model, data, "--keep", "id"),
        ".xlsx files are not supported. Save the sheet as “CSV UTF-8”": ("fit", place / "data.xlsx", "--target", "y"),
        "There is no directory ": ("fit", data, "--target", "y", "--out", place / "nowhere" / "m"),
        "tables are not written as .gz": ("predict", model, data, "--out", place / "p.csv.gz"),
        "is a directory: name a file in it": ("fit", data, "--target", "y", "--out", place),
        "has no column 'flag', which": ("fit", place, "--target", "y"),
        ".json files are not supported. Save it as CSV": ("fit", place / "data.json", "--target", "y"),
        "files without an extension are not supported. Names may end": ("fit", place / "data", "--target", "y"),
        "--sep and --decimal are for text files": ("predict", model, place / "d.parquet", "--sep", ";"),
        "in 5 rows (rows 0, 1, 2, 3, 4)": ("fit", place / "outcomes.csv", "--target", "y"),
        "in 5 rows (rows 0, 1, 2, 3, 4).": ("fit", place / "outcomes.csv", "--formula", "y ~ a"),
        "in 5 rows (rows 0, 1, 2, 3, 4). ": (
            *("report", model, "--data", place / "outcomes.csv", "--out", place / "r.html"),
        ),
        "'a' is continuous: 120 different values from": ("fit", data, "--formula", "a ~ b"),
        "add a column such as a >": ("fit", place / "numbers.csv", "--target", "a"),
    }  # fmt: skip


@pytest.mark.parametrize("number", range(30))
def test_what_is_wrong_is_one_sentence(number, place):
    message, command = list(failing(place).items())[number]
    said = run(*command, code=2 if message.startswith("--sep") else 1)
    assert said.stdout == ""
    assert message.strip() in said.stderr
    assert said.stderr.splitlines()[-1].startswith("Error: ")
    assert "Traceback" not in said.stderr


@pytest.mark.parametrize("name", ["p.xlsx", "p.csv.gz", "p"])
def test_a_name_that_no_table_is_written_under_is_refused_before_anything_is_read(name, tmp_path):
    said = run("predict", tmp_path / "no.vbsvm", tmp_path / "no.csv", "--out", tmp_path / name, code=1)
    assert "tables are not written as" in said.stderr


ROWS = b"".join(b"%.2f,%d\n" % (0.37 * (k % 7) - k / 60, k % 2) for k in range(60))
GOOD = b"a,y\n" + ROWS
MANY = b"".join(b"n%d,%d\n" % (k, k % 2) for k in range(200))
BAD_TABLES = [
    ("d.csv", b"", "d.csv is empty: it needs a header"),
    ("d.csv", b"\n\n  \n", "d.csv is empty: it needs a header"),
    ("d.csv", b"\xef\xbb\xbf", "d.csv is empty: it needs a header"),
    ("d.csv.gz", b"", "d.csv.gz is empty: it needs a header"),
    ("d.csv", b"a,y\n", "d.csv has no rows"),
    ("d.csv", b"a,y\n1,x\n2,x\n", "one class"),
    ("d.csv", b"name,y\n" + MANY, "200 different texts"),
    ("d.csv", b"y\n0\n1\n", "no column other than 'y' to predict it from"),
    ("d.csv", b"a,y\n1,\n2,\n", "is missing in every row"),
    ("d.csv", b"a,x;y\n1,2;1\n2,3;0\n", "If cells are separated by semicolons, add --sep ';'."),
    ("d.csv", b"a,a,y\n1,2,3\n2,3,4\n", "two columns named 'a'"),
    ("d.csv", GOOD + b"1,2,3\n", "d.csv: line 62 has 3 cells, and the header has 2 names"),
    ("d.csv", GOOD + b"1\n", "d.csv: line 62 has 1 cell, and the header has 2 names"),
    ("d.csv", b"a,y\n1,2,\n2,3,4\n", "line 3 has 3 cells"),
    ("d.csv", b"a,y\nfirst,1,2\nsecond,2,3\n", "line 2 has 3 cells"),
    ("d.csv", GOOD + b'"1,2\n', "a quotation mark that opens in line 62 is not closed"),
    ("d.csv", b"a,y" + b"x" * 200_000, "begins with a line that is too long to be a header"),
    ("d.csv", GOOD + b"\xff\xfe,2\n", "d.csv is not UTF-8 text (it contains the byte 0xff)"),
    ("d.csv", "é,y\n1,2\n".encode("latin-1"), "d.csv is not UTF-8 text (it contains the byte 0xe9)"),
    ("d.csv", GOOD.decode().encode("utf-16"), "d.csv is UTF-16 text"),
    ("d.csv", GOOD.decode().encode("utf-16-le"), "d.csv is UTF-16 text"),
    ("d.csv", GOOD.decode().encode("utf-16-be"), "d.csv is UTF-16 text"),
    ("d.csv", GOOD + b"1\0,2\n", "contains a NUL byte in line 62"),
    ("d.csv", b"\x89PNG\r\n\x1a\n" + bytes(50), "not a text file"),
    ("d.csv", b"PK\x03\x04" + bytes(50), "a zip archive or an Excel workbook"),
    ("d.csv", b"\xd0\xcf\x11\xe0" + bytes(50), "an Excel workbook"),
    ("d.csv", b"PAR1" + bytes(50), "a Parquet file: rename it to end in .parquet"),
    ("d.csv", gzip.compress(GOOD, mtime=0), "rename it to end in .csv.gz"),
    ("d.csv", b'[{"a": 1, "y": 2},\n{"a": 2, "y": 1}]', "is JSON: save it as CSV"),
    ("d.csv.gz", gzip.compress(GOOD, mtime=0)[:-30], "can't be unpacked: it was cut short or damaged"),
    ("d.csv.gz", gzip.compress(GOOD, mtime=0)[:-8] + bytes(8), "can't be unpacked: it was cut short or damaged"),
    ("d.csv.gz", gzip.compress(GOOD, mtime=0)[:10] + b"\xff" * 90, "can't be unpacked: it was cut short or damaged"),
    ("d.csv.bz2", bz2.compress(GOOD)[:-30], "can't be unpacked: it was cut short or damaged"),
    ("d.csv.bz2", bz2.compress(GOOD)[:20] + b"\xff" * 90, "can't be unpacked: it was cut short or damaged"),
    ("d.csv.xz", lzma.compress(GOOD)[:-30], "can't be unpacked: it was cut short or damaged"),
    ("d.csv.xz", lzma.compress(GOOD)[:40] + b"\xff" * 90, "can't be unpacked: it was cut short or damaged"),
    ("d.csv.zip", b"PK\x03\x04" + bytes(50), "can't be unpacked: it was cut short or damaged"),
    ("d.csv.gz", GOOD, "is not a .gz archive: remove .gz"),
    ("d.csv.zip", GOOD, "is not a .zip archive: remove .zip"),
    ("d.parquet", GOOD, "d.parquet can't be read as Parquet: it was cut short or damaged"),
    ("d.arrow", GOOD, "d.arrow can't be read as Arrow: it was cut short or damaged"),
]


@pytest.mark.parametrize(("name", "content", "message"), BAD_TABLES)
def test_tables_that_are_none_are_refused_in_words(name, content, message, tmp_path):
    if name in ("d.parquet", "d.arrow"):
        pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    (tmp_path / name).write_bytes(content)
    said = run("fit", tmp_path / name, "--target", "y", code=1).stderr
    assert message in said
    assert said.splitlines()[-1].startswith("Error: ")
    assert said.count("Error") == 1


@pytest.mark.parametrize(
    ("error", "message"),
    [(PermissionError(13, "no"), "no permission to read"), (OSError(5, "Input/output error"), "Input/output error.")],
)
def test_files_that_the_system_does_not_give_are_told(error, message, place, monkeypatch):
    def failing(*arguments):
        raise error

    monkeypatch.setattr(tables, "_ReportingFile", failing)
    said = run("fit", place / "data.csv", "--target", "y", code=1).stderr
    assert f"{place / 'data.csv'}" in said
    assert message in said


def test_an_archive_of_several_files_is_refused(tmp_path):
    with zipfile.ZipFile(tmp_path / "d.csv.zip", "w") as archive:
        archive.writestr("a.csv", GOOD)
        archive.writestr("b.csv", GOOD)
    said = run("fit", tmp_path / "d.csv.zip", "--target", "y", code=1).stderr
    assert "contains 2 files, but only one is allowed: unpack it first" in said


@pytest.mark.parametrize("ending", ["parquet", "arrow"])
def test_tables_cut_short_are_refused(ending, place, tmp_path):
    data, path = table()[["a", "h", "b", "g"]], tmp_path / f"d.{ending}"
    data.to_parquet(path) if ending == "parquet" else data.to_feather(path)
    path.write_bytes(path.read_bytes()[:-100])
    said = run("predict", place / "formula.vbsvm", path, code=1).stderr
    assert f"{path} can't be read as {ending.capitalize()}: it was cut short or damaged" in said


def test_a_missing_library_is_named(place, tmp_path, monkeypatch):
    def without(*arguments, **options):
        raise ImportError("no engine")

    (tmp_path / "d.parquet").write_bytes(b"PAR1")
    monkeypatch.setattr(pd, "read_parquet", without)
    assert "pip install pyarrow" in run("predict", place / "formula.vbsvm", tmp_path / "d.parquet", code=1).stderr


# Separators and decimals


def european(text):
    return text.replace(",", ";").replace(".", ",")


@pytest.mark.parametrize(
    ("name", "change", "options", "note"),
    [
        ("d.csv", lambda text: text.replace(",", ";"), (), "cells are separated by semicolons."),
        ("d.csv", lambda text: text.replace(",", "\t"), (), "cells are separated by tabs."),
        ("d.csv", lambda text: text.replace(",", "|"), (), "cells are separated by vertical bars."),
        ("d.tsv", lambda text: text, (), "cells are separated by commas."),
        ("d.txt", lambda text: text.replace(",", "\t"), (), None),
        ("d.csv", european, (), "cells are separated by semicolons and decimals by commas."),
        ("d.csv", lambda text: "\ufeff" + european(text), (), "separated by semicolons and decimals by commas."),
        ("d.csv", lambda text: european(text).replace("\n", "\r\n"), (), "by semicolons and decimals by commas."),
        ("d.csv", european, ("--sep", ";", "--decimal", ","), None),
        ("d.csv", european, ("--sep", "semicolon"), "decimals by commas."),
        ("d.csv", lambda text: text.replace(",", ":"), ("--sep", ":"), None),
        ("d.csv", lambda text: text.replace(",", "\t"), ("--sep", "tab"), None),
        ("d.csv", lambda text: text.replace(",", "\t"), ("--sep", "\\t"), None),
        ("d.csv", lambda text: re.sub(r"(-?\d+)\.(\d+)", r'"\1,\2"', text), ("--decimal", ","), None),
    ],
)
@pytest.mark.parametrize("command", ["fit", "predict", "report"])
def test_separators_and_decimals_are_recognised_or_given(
    command, name, change, options, note, place, tmp_path, monkeypatch
):
    given = []
    monkeypatch.setattr(Fit, "report", lambda self, path, data, **_: given.append(data))
    (tmp_path / name).write_bytes(change((place / "data.csv").read_text()).encode())
    model = place / "formula.vbsvm"
    arguments = {
        "fit": lambda data: ("fit", data, "--formula", "y ~ a + h"),
        "predict": lambda data: ("predict", model, data, "--scores"),
        "report": lambda data: ("report", model, "--data", data, "--out", tmp_path / "r.html", "--force"),
    }[command]
    found, expected = run(*arguments(tmp_path / name), *options), run(*arguments(place / "data.csv"))
    assert found.stdout == expected.stdout
    if command == "report":
        pd.testing.assert_frame_equal(*given)
    told = [line for line in found.stderr.splitlines() if line.startswith("Note: ")]
    assert len(told) == (note is not None)
    assert not note or told[0].endswith(note)


@pytest.mark.parametrize("header", ['"a, in cm";y', '"a; in cm",y', "'a' in cm;y", '"a ""x"", b";"y"'])
def test_names_in_quotes_hold_any_sign(header, tmp_path):
    sep = ";" if header.count(";y") or header.endswith('"y"') else ","
    (tmp_path / "d.csv").write_bytes(header.encode() + b"\n" + ROWS.replace(b",", sep.encode()))
    found = tables.read(str(tmp_path / "d.csv"))
    assert found.shape == (60, 2)
    assert list(found)[1] == "y"
    assert found.dtypes.map(lambda dtype: dtype.kind).tolist() == ["f", "i"]


@pytest.mark.parametrize(
    "content",
    [
        b"a;y\n1,234;0\n2,345;1\n",  # thousands, it may be
        b"a;b;y\n1,2;1.5;0\n2,3;2.5;1\n",  # two decimal signs
        b'a,y\n"1,2",0\n"2,3",1\n',  # a list, it may be
    ],
)
def test_commas_in_numbers_that_may_mean_something_else_are_told(content, tmp_path, capsys):
    (tmp_path / "d.csv").write_bytes(content)
    assert tables.read(str(tmp_path / "d.csv"))["a"].dtype.kind == "O"
    assert "If the comma is a decimal separator, add --decimal ," in capsys.readouterr().err
    found = tables.read(str(tmp_path / "d.csv"), decimal=",")
    assert found["a"].dtype.kind == "f"
    assert capsys.readouterr().err.count("--decimal") == 0


@pytest.mark.parametrize("sign", ["", ";;", '"', "a", "5"])
def test_separators_are_one_sign(sign, place):
    assert "give one character" in run("fit", place / "data.csv", "--target", "y", "--sep", sign, code=2).stderr


# Numbers that no plain type holds


@pytest.mark.parametrize("ending", ["csv", "parquet"])
@pytest.mark.parametrize("how", [("--target", "y"), ("--formula", "y ~ a + i + d + m")])
def test_large_integers_and_decimals_are_numbers(how, ending, tmp_path):
    data = table()[["a", "y"]]
    large = [10**20 + k * 10**18 for k in range(len(data))]
    mixed = [2**64 - 1 if k % 2 else -k for k in range(len(data))]  # pandas leaves these as text
    if ending == "csv":
        data.assign(i=large, d=1.5, m=mixed).astype({"i": object}).to_csv(tmp_path / "d.csv", index=False)
    else:
        data = data.assign(i=[Decimal(one) for one in large], d=Decimal("1.5"), m=[Decimal(one) for one in mixed])
        data.to_parquet(tmp_path / "d.parquet")
    said = run("fit", tmp_path / f"d.{ending}", *how, "--out", tmp_path / "m")
    assert "Note: the numbers of column 'i' are rounded to 16 digits." in said.stderr
    assert "categories" not in said.stderr
    assert re.search(r"^i +-?[\d.]", said.stdout, flags=re.MULTILINE)
    assert len(predicted(tmp_path, "m", "--scores", data=f"d.{ending}")) == len(data)


@pytest.mark.parametrize("how", [("--target", "y", "--group", "i"), ("--formula", "y ~ a + (1 | i)")])
def test_groups_of_large_integers_are_not_rounded(how, tmp_path):
    data = table()[["a", "y"]].assign(i=[str(10**20 + k % 8) for k in range(120)])
    data.to_csv(tmp_path / "d.csv", index=False)
    assert "rounded" not in run("fit", tmp_path / "d.csv", *how, "--out", tmp_path / "m").stderr
    fitted = load(tmp_path / "m")
    effects = fitted.random_effects() if isinstance(fitted, Fit) else fitted.random_effects_
    assert len(effects) == 8
    assert "rounded" not in run("predict", tmp_path / "m", tmp_path / "d.csv").stderr


# Outcomes and classes


@pytest.mark.parametrize(
    ("values", "told"),
    [
        (np.linspace(-1, 2, 120), ("120 different values from -1 to 2", "y > 0 ")),
        (np.linspace(1, 2, 120), ("120 different values from 1 to 2", "y > 1.5 ")),
        (np.arange(120), ("120 different values from 0 to 119", "y > 59.5 ")),
        (np.r_[np.nan, 1 + np.arange(119) % 59], ("59 different values from 1 to 59", "y > ")),
    ],
)
@pytest.mark.parametrize("how", [("--target", "y"), ("--formula", "y ~ a")])
def test_a_continuous_outcome_is_explained(how, values, told, tmp_path):
    table()[["a"]].assign(y=values).to_csv(tmp_path / "d.csv", index=False)
    said = run("fit", tmp_path / "d.csv", *how, code=1).stderr
    assert f"The outcome 'y' is continuous: {told[0]}. Classes are needed" in said
    assert f"add a column such as {told[1]}" in said


def test_balanced_classes_have_the_same_weight(place, tmp_path):
    data = table()[["a", "b", "k", "y"]]
    data = data[(data["y"] == "yes") | (np.arange(len(data)) % 4 == 0)].reset_index(drop=True)
    data.to_csv(tmp_path / "d.csv", index=False)
    out = ("--balanced", "--out", tmp_path / "m", "--force")
    run("fit", tmp_path / "d.csv", "--target", "y", *out)
    expected = VBSVC(class_weight="balanced").fit(data[["a", "b", "k"]], data["y"])
    np.testing.assert_allclose(load(tmp_path / "m").coef_, expected.coef_, rtol=1e-6)
    for weights in (np.ones(len(data)), data["k"].to_numpy(dtype=float)):
        given = () if (weights == 1).all() else ("--weights", "k")
        run("fit", tmp_path / "d.csv", "--formula", "y ~ a + b", *given, *out)
        sums = np.array([weights[data["y"] == label].sum() for label in ("no", "yes")])
        factors = (sums.sum() / 2 / sums)[(data["y"] == "yes").to_numpy(dtype=int)]
        expected = Model("y ~ a + b", data, weights=weights * factors).fit()
        np.testing.assert_allclose(load(tmp_path / "m").coef, expected.coef, rtol=1e-6)


@pytest.mark.parametrize(
    ("message", "told"),
    [
        ("Model.fit: no row is x.\nTake a.", "No row is x. Take a."),
        ("VBSVC.fit stopped.", "The fit stopped."),
        ("as with Gibbs(draws=80, tune=10), or", "as with --draws 80 --tune 10, or"),
        ('Take class_weight="balanced" or weights=….', "Take --balanced."),
        ('Take class_weight="balanced", or in a formula weights=.', "Take --balanced."),
        ("Take class_weight='balanced'.", "Take --balanced."),
        ('Take class_weight="balanced" (VBSVC) or weights= (Model).', "Take --balanced (Model)."),
        ("Take weights=….", "Take --balanced or --weights."),
        ("VBSVC: no row is 'a'. Give 'a' more weight: class_weight=\"balanced\".",
         "No row is 'a'. Give 'a' more weight: --balanced."),
        ("Model.fit: no. Give 'a' more weight: weights=… with 4.1 for its rows and 0.57 for all others.",
         "No. Give 'a' more weight: --balanced."),
        ("VBSVC was interrupted after 3 iterations.", "The fit was interrupted after 3 iterations."),
        ("as in positive=2; VBSVC fits all of them at once.", "as in --positive 2; --target fits all of them at once."),
        ("make a table: use by={'a': [1, 2.5]} to compare at these values, or cut.", "make a table: cut."),
        ("take inference=Variational().", "take variational Bayes, without --gibbs."),
    ],
)  # fmt: skip
def test_advice_is_given_by_options(message, told):
    assert with_cli_options(message) == told


@pytest.mark.filterwarnings("default")
def test_warnings_are_shown_once_in_a_line(place, monkeypatch):
    fit = Model.fit

    def warned(self, *arguments, **options):
        for _ in range(2):
            warnings.warn_explicit('Model.fit: one\nof two. Take class_weight="balanced".', UserWarning, "x.py", 1)
        warnings.warn("Model.fit: one of two.\n", UserWarning, stacklevel=2)
        warnings.warn("Model.fit: one of two.", UserWarning, stacklevel=2)
        return fit(self, *arguments, **options)

    monkeypatch.setattr(Model, "fit", warned)
    said = run("fit", place / "data.csv", "--formula", "y ~ a").stderr
    assert said == "Warning: One of two. Take --balanced.\nWarning: One of two.\n"


# Progress


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.mark.parametrize(("patience", "shown"), [(-1.0, True), (1e9, False)])
@pytest.mark.parametrize("ending", ["csv", "csv.gz"])
def test_progress_is_shown_on_a_terminal_if_reading_takes_long(patience, shown, ending, tmp_path, monkeypatch, capsys):
    table().to_csv(tmp_path / f"d.{ending}", index=False)
    monkeypatch.setattr("vbsvm.base.printing.SECONDS_BEFORE", patience)
    monkeypatch.setattr(sys, "stderr", Terminal())
    expected = tables.read(str(tmp_path / f"d.{ending}"))
    assert (f"Reading d.{ending}" in sys.stderr.getvalue()) == shown
    assert len(expected) == len(table())
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ((), "either --formula or --target"),
        (("--formula", "y ~ a", "--target", "y"), "either --formula or --target"),
        (("--formula", "y ~ a", "--group", "g"), "need --target"),
        (("--target", "y", "--draws", "5"), "--draws needs --gibbs"),
        (("--target", "y", "--gibbs", "--chains", "0"), "0 is not in the range"),
        (("--frog",), "No such option"),
        (("--target", "y", "--group", "y"), "'y' is given to both --target and --group"),
        (("--target", "y", "--drop", "y"), "'y' is given to both --target and --drop"),
        (("--target", "y", "--weights", "k", "--drop", "k"), "'k' is given to both --weights and --drop"),
    ],
)
def test_wrong_usage_ends_with_2(options, message, place):
    assert message in run("fit", place / "data.csv", *options, code=2).stderr


def test_ctrl_c_ends_with_130_and_writes_nothing(place, tmp_path, monkeypatch):
    def interrupted(*arguments, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr(Model, "fit", interrupted)
    said = run("fit", place / "data.csv", "--formula", "y ~ a", "--out", tmp_path / "m", code=130)
    assert "Interrupted: nothing was written." in said.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_model_of_an_array_says_that_its_columns_have_no_names(tmp_path, place):
    VBSVC().fit(table()[["a", "b"]].to_numpy(), table()["y"]).save(tmp_path / "m")
    assert "no names" in run("predict", tmp_path / "m", place / "data.csv", code=1).stderr


@pytest.mark.parametrize("model", ["formula", "classes"])
def test_a_report_is_asked_for_the_rows_whose_outcome_is_known(model, place, tmp_path, monkeypatch):
    asked = {}
    kind, data, outcome = (
        (Fit, table(), "y") if model == "formula" else (VBSVC, table()[["a", "b", "k", "three"]], "three")
    )
    monkeypatch.setattr(kind, "report", lambda self, path, **given: asked.update(given, path=path), raising=False)
    data[outcome] = data[outcome].astype(object).mask(np.arange(len(data)) < 5)
    data.to_csv(tmp_path / "d.csv", index=False)
    options = ("--target", outcome) if model == "classes" else ()
    run(
        "report",
        place / f"{model}.vbsvm",
        "--data",
        tmp_path / "d.csv",
        "--out",
        tmp_path / "r.html",
        *options,
        "--drop-missing-outcome",
    )
    given = asked["data"] if model == "formula" else asked["X"]
    assert len(given) == len(table()) - 5
    assert (asked["path"], asked["title"]) == (str(tmp_path / "r.html"), None)


def test_a_report_of_a_model_without_formula_asks_for_the_target(place, tmp_path):
    options = ("--data", place / "numbers.csv", "--out", tmp_path / "r.html")
    assert (
        "name the column of --data that it predicts with --target"
        in run("report", place / "classes.vbsvm", *options, code=2).stderr
    )


@pytest.mark.skipif(not hasattr(Fit, "report"), reason="this version has no reports")
def test_a_report_is_written(place, tmp_path):
    run(
        "report",
        place / "formula.vbsvm",
        "--data",
        place / "data.csv",
        "--title",
        "Visits",
        "--out",
        tmp_path / "r.html",
    )
    assert "Visits" in (tmp_path / "r.html").read_text()
    options = ("--data", place / "numbers.csv", "--target", "three", "--out", tmp_path / "s.html")
    run("report", place / "classes.vbsvm", *options)
    assert (tmp_path / "s.html").stat().st_size > 1000


# The program


@pytest.mark.filterwarnings("default")
def test_the_commands_of_the_page_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    load_toenail().to_csv("toenail.csv", index=False)
    page = (Path(__file__).parents[2] / "docs" / "command-line.md").read_text()
    blocks = re.findall(r"^```sh\n(.*?)```", page, flags=re.DOTALL | re.MULTILINE)
    commands = [shlex.split(line)[1:] for block in blocks for line in block.splitlines()]
    assert len(commands) == 13
    for command in commands:
        if command[0] != "report" or hasattr(Fit, "report"):
            found = run(*command)
            assert found.stdout + found.stderr


def test_help_names_every_command_with_examples():
    shown = run("--help").stdout
    for name in ("fit", "predict", "summary", "report", "demo"):
        assert f"\n  {name} " in shown
        assert f"vbsvm {name}" in run(name, "--help").stdout
    assert run("--version").stdout == f"vbsvm {vbsvm.__version__}\n"


@pytest.mark.parametrize(
    "code", ["import vbsvm", "from vbsvm.cli import main; main(['--help'], standalone_mode=False)"]
)
def test_help_and_import_load_nothing_heavy(code):
    """Loading NumPy and pandas takes longer than all of the rest."""
    asked = f"import sys; {code}; print([name for name in {HEAVY} if name in sys.modules], file=sys.stderr)"
    assert subprocess.run([sys.executable, "-c", asked], check=True, capture_output=True, text=True).stderr == "[]\n"


def test_it_runs_as_a_program(place, tmp_path):
    command = [sys.executable, "-m", "vbsvm", "predict", place / "formula.vbsvm", place / "data.csv"]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    assert done.stdout.splitlines()[0] == "prediction"
    assert len(done.stdout.splitlines()) == 121
    assert done.stderr == ""
    done = subprocess.run([*command[:-1], tmp_path / "none.csv"], check=False, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == f"Error: There is no file {tmp_path / 'none.csv'}.\n"


def test_effects_are_those_of_python(place, tmp_path):
    model, data = load(place / "formula.vbsvm"), pd.read_csv(place / "data.csv")
    shown = run("effects", place / "formula.vbsvm", place / "data.csv", "a", "--by", "h").stdout
    assert "estimate" in shown
    assert "95 % CI" in shown
    options = ("--at", "0", "--at", "1.5", "--kind", "ratio", "--groups", "new", "--out", tmp_path / "e.csv")
    run("effects", place / "formula.vbsvm", place / "data.csv", "a", *options)
    expected = model.contrasts("a", kind="ratio", at=[0, 1.5], groups="new", data=data).reset_index()
    pd.testing.assert_frame_equal(pd.read_csv(tmp_path / "e.csv"), expected, check_names=False)
    classes = run("effects", place / "classes.vbsvm", place / "numbers.csv", "a", "--kind", "slope").stdout
    assert "class" in classes
    assert "h - " not in classes
    wrong = run("effects", place / "formula.vbsvm", place / "data.csv", "aa", code=1)
    assert "'aa' is not a predictor of the model" in wrong.output
    wrong = run("effects", place / "formula.vbsvm", place / "data.csv", "a", "--at", "much", code=2)
    assert "a is a number" in wrong.output


@pytest.mark.parametrize("pack", [gzip.compress, bz2.compress])
def test_packed_tables_are_large_by_what_they_unpack_to(pack, tmp_path):
    ending = "gz" if pack is gzip.compress else "bz2"
    for n_rows, large in [(1000, False), (7_000_000, True)]:
        (tmp_path / f"d.csv.{ending}").write_bytes(pack(b"a,y\n" + b"1,0\n" * n_rows))
        assert (tables.piecewise_files(str(tmp_path / f"d.csv.{ending}"), "100MB", None, None) is not None) is large


# Hostile names and labels

CONTROLS = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e]")


@pytest.fixture(scope="module")
def hostile(tmp_path_factory):
    """A table whose labels, levels and names turn a terminal red, or are formulas to a spreadsheet."""
    place = tmp_path_factory.mktemp("hostile")
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"a": rng.normal(size=60), "b\x1bc": rng.normal(size=60)})
    frame["h"] = rng.choice(["\x1b]0;title\x07", "-\u202elevel", "plain"], 60)
    frame["y\x1bc"] = np.where(frame["a"] + rng.logistic(size=60) > 0, '=HYPERLINK("http://x","y")', "\x1b[31mred")
    frame["=id"] = [f"@{k}" for k in range(60)]
    frame.to_csv(place / "data.csv", index=False)
    formula = "`y\x1bc` ~ a + `b\x1bc` + h"
    run("fit", place / "data.csv", "--formula", formula, "--out", place / "m.vbsvm")
    return place


def test_no_control_character_reaches_the_terminal_or_the_page(hostile, tmp_path):
    formula = "`y\x1bc` ~ a + `b\x1bc` + h"
    fitted = run("fit", hostile / "data.csv", "--formula", formula)
    summary = run("summary", hostile / "m.vbsvm")
    effects = run("effects", hostile / "m.vbsvm", hostile / "data.csv", "h")
    for shown in (fitted, summary, effects):
        assert r"\x1b" in shown.stdout
        assert not CONTROLS.search(shown.stdout + shown.stderr)
    fit = load(hostile / "m.vbsvm")
    model = Model(formula, pd.read_csv(hostile / "data.csv"))
    for text in (repr(fit), str(fit), fit._repr_html_(), repr(model), str(model), model._repr_html_()):
        assert r"\x1bc" in text
        assert not CONTROLS.search(text)
    run("report", hostile / "m.vbsvm", "--data", hostile / "data.csv", "--out", tmp_path / "r.html")
    page = (tmp_path / "r.html").read_text(encoding="utf-8")
    assert r"\x1bc" in page
    assert not CONTROLS.search(page)


def test_errors_show_no_control_characters(hostile, place, tmp_path):
    (tmp_path / "d\x1bc.csv").write_text("a,a\n1,2\n")
    for arguments in [
        ("fit", tmp_path / "d\x1bc.csv", "--target", "a"),
        ("fit", tmp_path / "no\x1bc.csv", "--target", "a"),
        ("fit", hostile / "data.csv", "--formula", "`y\x1bc` ~ a + `\x1bc`"),
        ("fit", hostile / "data.csv", "--target", "\x1bc"),
        ("predict", hostile / "m.vbsvm", place / "data.csv"),
        ("summary", tmp_path / "d\x1bc.csv"),
    ]:
        said = run(*arguments, code=1).stderr
        assert "Error: " in said
        assert "x1bc" in said
        assert not CONTROLS.search(said)


def test_predictions_are_data_in_files_and_safe_on_a_terminal(hostile, monkeypatch):
    arguments = ["predict", hostile / "m.vbsvm", hostile / "data.csv", "--keep", "h"]
    piped = run(*arguments).stdout
    assert set(pd.read_csv(io.StringIO(piped))["prediction"]) == {'=HYPERLINK("http://x","y")', "\x1b[31mred"}
    for data in ("data.csv", "*.csv"):  # in memory, and piece by piece
        monkeypatch.setattr("vbsvm.cli.__init__.is_terminal", lambda: True)
        seen = run("predict", hostile / "m.vbsvm", hostile / data, "--keep", "h").stdout
        assert seen.count("\n") == 61
        assert r"\x1b[31mred" in seen
        assert not CONTROLS.search(seen)


def test_spreadsheets_run_no_text_of_predictions(hostile, tmp_path):
    options = ["--keep", "=id", "--keep", "h", "--scores", "--excel-safe"]
    for data in ("data.csv", "*.csv"):
        run("predict", hostile / "m.vbsvm", hostile / data, *options, "--out", tmp_path / "p.csv", "--force")
        found = pd.read_csv(tmp_path / "p.csv")
        assert list(found) == ["'=id", "h", "prediction", "score"]
        assert set(found["prediction"]) == {'\'=HYPERLINK("http://x","y")', "\x1b[31mred"}
        assert (found["'=id"].str[:2] == "'@").all()
        assert set(found["h"]) == {"\x1b]0;title\x07", "'-\u202elevel", "plain"}
        assert (found["score"] < 0).any()  # numbers stay numbers


def test_line_breaks_within_cells_begin_no_row(hostile, tmp_path):
    """Readers of CSV take a carriage return that is not quoted for the end of a row, so that ``=1`` would begin one."""
    broken = ["\r=1", "a\r=1", "\n=1", "b\r\n=1", "plain"]
    pd.read_csv(hostile / "data.csv").assign(note=(12 * broken)).to_parquet(tmp_path / "data.parquet")
    for data in ("data.parquet", "*.parquet"):
        for options in ([], ["--excel-safe"]):
            out = ["--keep", "note", "--proba", *options, "--out", tmp_path / "p.csv", "--force"]
            run("predict", hostile / "m.vbsvm", tmp_path / data, *out)
            with (tmp_path / "p.csv").open(newline="", encoding="utf-8") as file:
                rows = list(csv.reader(file))
            sign = "'" if options else ""
            assert [row[0] for row in rows[1:]] == 12 * [f"{sign}\r=1", "a\r=1", f"{sign}\n=1", "b\r\n=1", "plain"]
            assert {len(row) for row in rows} == {4}
            assert all(0.0 < float(row[-1]) < 1.0 for row in rows[1:])
            text = (tmp_path / "p.csv").read_bytes().decode()
            assert not any(line.startswith("=1,") for line in text.splitlines())


def test_spreadsheets_run_no_text_of_effects(hostile, tmp_path):
    arguments = ["effects", hostile / "m.vbsvm", hostile / "data.csv", "h", "--out", tmp_path / "e.csv", "--force"]
    run(*arguments)
    assert "-\u202elevel" in set(pd.read_csv(tmp_path / "e.csv")["h"])
    run(*arguments, "--excel-safe")
    found = pd.read_csv(tmp_path / "e.csv")
    assert "'-\u202elevel" in set(found["h"])
    assert found.select_dtypes("number").shape[1] > 2


def test_a_summary_is_written_as_csv_and_json(place, tmp_path):
    fit = load(place / "formula.vbsvm")
    table = fit.summary(covariance="posterior")
    asked = ("summary", place / "formula.vbsvm", "--covariance", "posterior")
    written = run(*asked, "--csv", tmp_path / "s.csv")
    assert written.stdout == ""
    found = pd.read_csv(tmp_path / "s.csv", index_col="term")
    pd.testing.assert_frame_equal(found, table.rename_axis("term"), check_exact=False, rtol=1e-9)
    assert run(*asked, "--csv", "-").stdout == (tmp_path / "s.csv").read_text(encoding="utf-8")
    run(*asked, "--json", tmp_path / "s.json")
    content = json.loads((tmp_path / "s.json").read_text(encoding="utf-8"))
    assert [row["term"] for row in content["coefficients"]] == list(table.index)
    np.testing.assert_allclose([row["estimate"] for row in content["coefficients"]], table["estimate"], rtol=1e-9)
    assert [row["term"] for row in content["variance_components"]] == ["s(b)", "(1 | g)"]
    assert "covariance=" not in content["note"]
    assert json.loads(run(*asked, "--json", "-").stdout) == content
    classes = json.loads(run("summary", place / "classes.vbsvm", "--json", "-").stdout)
    assert len(classes["coefficients"]) == len(load(place / "classes.vbsvm").summary())
    assert classes["coefficients"][0]["class"] == 0


def test_a_summary_is_not_written_over_a_file_or_as_another_kind(place, tmp_path):
    (tmp_path / "s.csv").write_text("old")
    for option in ("--csv", "--json"):
        asked = ("summary", place / "formula.vbsvm", option, tmp_path / "s.csv")
        assert "exists already: add --force" in run(*asked, code=1).stderr
        assert (tmp_path / "s.csv").read_text() == "old"
    run(*asked, "--force")
    assert "Give either --csv or --json" in run(*asked, "--csv", "-", code=2).stderr
    assert "tables are not written as" in run("summary", place / "formula.vbsvm", "--csv", "s.doc", code=1).stderr
    assert "exists already" in run("demo", "--report", tmp_path / "s.csv", code=1).stderr


def test_the_most_important_coefficients_of_many_are_shown(tmp_path):
    rng = np.random.default_rng(0)
    data = pd.DataFrame(rng.normal(size=(100, 90)), columns=[f"x{k}" for k in range(90)])
    data["y"] = np.where(5 * data["x70"] + rng.logistic(size=100) > 0, "a", "b")
    data.to_csv(tmp_path / "d.csv", index=False)
    shown = run("fit", tmp_path / "d.csv", "--target", "y", "--select", "-o", tmp_path / "m").stdout
    included = (load(tmp_path / "m").inclusion_probability_ > 0.5).sum()
    text = " ".join(shown.split())
    assert f"Predictors included (probability above ½): {included} of 90." in text
    assert f"{included + 1} of 91 coefficients are shown" in text
    assert len(re.findall(r"^x\d+ ", shown, re.MULTILINE)) == included
    top = run("summary", tmp_path / "m", "--top", "3").stdout
    assert re.findall(r"^x\d+", top, re.MULTILINE)[0] == "x70"
    assert len(re.findall(r"^x\d+ ", top, re.MULTILINE)) == 3
    run("fit", tmp_path / "d.csv", "--target", "y", "--output", tmp_path / "all")
    assert "61 of 91 coefficients are shown" in " ".join(run("summary", tmp_path / "all").stdout.split())
    assert "91 of 91" in " ".join(run("summary", tmp_path / "all", "--top", "500").stdout.split())
    assert len(json.loads(run("summary", tmp_path / "all", "--json", "-").stdout)["coefficients"]) == 91


@pytest.mark.filterwarnings("default")
def test_iterations_are_limited_and_advice_says_so(place):
    asked = ("fit", place / "data.csv", "--formula", "y ~ a + h + (1 | g)", "--likelihood", "hinge")
    limited = run(*asked, "--max-iter", "2")
    assert "reached the limit of 2 iterations" in " ".join(limited.stdout.split())
    assert "--max-iter 20" in limited.stderr
    assert "max_iter" not in limited.stderr
    assert "--max-iter is for variational Bayes" in run(*asked, "--max-iter", "2", "--gibbs", code=2).stderr


def test_effects_of_a_large_table_are_over_a_sample_of_bounded_size(tmp_path, monkeypatch):
    rng = np.random.default_rng(0)
    data = pd.DataFrame({"a": rng.normal(size=30_000).round(3), "b": rng.normal(size=30_000).round(3)})
    data["rest"], data["h"] = "x" * 20, np.where(rng.random(30_000) < 0.5, "u", "v")
    data["y"] = np.where(data["a"] + (data["h"] == "u") + rng.logistic(size=30_000) > 0, "yes", "no")
    data.to_csv(tmp_path / "d.csv", index=False)
    data[:500].to_csv(tmp_path / "few.csv", index=False)
    run("fit", tmp_path / "few.csv", "--formula", "y ~ a + h", "-o", tmp_path / "m")
    asked = ("effects", tmp_path / "m", tmp_path / "d.csv", "h")
    whole = run(*asked, "-o", tmp_path / "whole.csv")
    assert "sample" not in whole.stderr
    monkeypatch.setattr("vbsvm.cli.models.EFFECTS_FACTOR", 10_000)
    assert "there is no column 'h2'" in run(*asked, "--by", "h2", code=1).stderr
    assert "sample" not in run(*asked).stderr
    monkeypatch.setattr(tables, "CELL_BYTES", 100_000)
    part = run(*asked, "-o", tmp_path / "part.csv")
    assert "random sample of 3333 of 30000 observations" in part.stderr
    for name in ("whole", "part"):
        found = pd.read_csv(tmp_path / f"{name}.csv", index_col="h")["estimate"]
        expected = load(tmp_path / "m").effects("h", data=data)["estimate"]
        np.testing.assert_allclose(found, expected, atol=0.01 if name == "part" else 1e-9)
    run(*asked, "-o", tmp_path / "again.csv")
    assert (tmp_path / "again.csv").read_bytes() == (tmp_path / "part.csv").read_bytes()
