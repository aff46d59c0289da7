"""The benchmark of whether fits tell the truth: data sets are run once, summarised with intervals, and judged."""

import json
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

ROOT = Path(__file__).parent.parent
SMALL = "n = 40"


@pytest.fixture
def truth(monkeypatch, tmp_path):
    """The benchmark, whose results go to a folder of their own."""
    monkeypatch.syspath_prepend(ROOT)
    from benchmarks import truth

    monkeypatch.setattr(truth, "RESULTS", tmp_path)
    return truth


@pytest.fixture
def table(truth):
    from benchmarks import truth_table

    return truth_table


def journal_of(truth, label):
    return [json.loads(line) for line in (truth.RESULTS / f"truth-{label}.jsonl").read_text().splitlines()]


def test_one_set_of_two_designs_is_run_kept_and_printed(truth, capsys):
    truth.main(["--sets", "1", "--parts", "priors", "--times"])
    journal = journal_of(truth, "now")
    assert [one["design"] for one in journal] == [SMALL, "plentiful data"]
    assert {one["seed"] for one in journal} == {truth.FIRST_SEED}
    assert all(np.isfinite(list(one["numbers"].values())).all() for one in journal)
    assert journal[0]["numbers"]["logistic_held"] in (0.0, 1.0)
    shown = capsys.readouterr().out
    assert "n = 40, true slope 1, default: estimate" in shown
    assert "CPU seconds of a data set" in shown
    assert "failed" not in shown

    older = dict(journal[0], numbers={"default_estimate": 0.5})
    (truth.RESULTS / "truth-before.jsonl").write_text(json.dumps(older) + "\n")
    truth.main(["--sets", "0", "--parts", "priors"])
    (line,) = (one for one in capsys.readouterr().out.splitlines() if one.startswith("n = 40, true slope 1, default"))
    before, now = line.split(" ± ")[:2]
    assert before.endswith(" 0.500")
    assert now.endswith(f" {journal[0]['numbers']['default_estimate']:.3f}")
    assert ".75 to 1.25" in line
    assert len(journal_of(truth, "now")) == 2  # the table alone was asked for


def test_a_run_goes_on_where_it_was(truth, monkeypatch):
    designs, path = [truth.DESIGNS["σ = 0, 20 × 5"], truth.DESIGNS[SMALL]], truth.RESULTS / "truth-now.jsonl"
    asked = []

    def run_one(name, seed):
        asked.append((name, seed))
        return {"design": name, "seed": seed, "seconds": 0.0, "numbers": {"held": 1.0}}

    monkeypatch.setattr(truth, "run_one", run_one)
    truth.run(designs, path, 2, 1)
    assert len(set(asked)) == 4
    assert {name for name, _ in asked[:2]} == {design.name for design in designs}  # each has a set early
    path.write_text(path.read_text() + '{"design": "n = 40", "se')
    truth.run(designs, path, 3, 1)
    assert sorted(seed for _, seed in asked[4:]) == [truth.FIRST_SEED + 2] * 2
    truth.run(designs, path, 3, 1)
    assert len(asked) == 6


def test_an_error_is_kept_and_counts_for_nothing(truth, table, capsys, monkeypatch):
    def fail(seed):
        raise ValueError("nothing of this")

    monkeypatch.setitem(truth.DESIGNS, "bad", table.Design("bad", fail, 2))
    truth.run([truth.DESIGNS["bad"]], truth.RESULTS / "truth-now.jsonl", None, 1)
    found = truth.read(truth.RESULTS / "truth-now.jsonl")
    truth.print_truth([table.Line("bad", "a share", "held", target=table.coverage(0.9))], {}, found)
    truth.print_failures(found, "now")
    shown = capsys.readouterr().out
    assert "now, bad: 2 of 2 data sets failed; seed 100000: ValueError: nothing of this" in shown
    assert "met" not in shown
    assert "missed" not in shown


def test_all_lines_have_a_design(truth):
    lines = [line for part in truth.PARTS.values() for line in part.LINES]
    assert {line.design for line in lines} == set(truth.DESIGNS)
    texts = [line.what for line in lines if not line.what.startswith("…")]
    assert len(set(texts)) == len(texts)


def test_intervals_of_proportions_are_wilsons(table):
    none = table.percent(np.zeros(10))
    assert (none.value, none.low) == (0.0, 0.0)
    assert none.high == pytest.approx(0.2775, abs=1e-4)
    half = table.percent(np.r_[np.zeros(50), np.ones(50)])
    assert (half.low, half.high) == pytest.approx((0.4038, 0.5962), abs=1e-4)
    parts = table.percent(np.array([0.5, 1.0, 0.75]))
    assert parts.text == "75.0 ± 14.4 %"


@pytest.mark.parametrize(
    ("held", "sets", "verdict"), [(95, 100, "met"), (88, 100, "near"), (50, 100, "missed"), (0, 0, "")]
)
def test_the_verdict_is_that_of_the_newer_results(table, held, sets, verdict):
    line = table.Line("d", "coverage", "held", target=table.coverage(0.91))
    now = {k: {"held": float(k < held)} for k in range(sets)}
    assert table.table_row(line, {}, now)[-1] == verdict
    assert table.table_row(line, {k: {"held": 1.0} for k in range(20)}, now)[-1] == (verdict or "met")


def test_where_there_is_no_case_a_target_is_met_only_if_that_is_said(table):
    sets = {1: {"missed": 0.0, "warned": 0.0}}
    for none_is_met, verdict in ((True, "met"), (False, "")):
        target = table.at_least(0.95)
        line = table.Line("d", "x", "warned", target=target, where={"missed": 1.0}, none_is_met=none_is_met)
        assert table.table_row(line, {}, sets)[-1] == verdict


def test_no_worse_than_before_is_judged_on_the_same_data_sets(table):
    line = table.Line("d", "F1", "f1", table.average, table.NO_WORSE)
    rng = np.random.default_rng(0)
    base = rng.random(50)
    before = {k: {"f1": base[k]} for k in range(50)}
    alike = {k: {"f1": base[k] + 0.01 * (-1) ** k} for k in range(50)}
    worse = {k: {"f1": base[k] - 0.01 + 0.001 * (-1) ** k} for k in range(50)}
    assert table.table_row(line, before, alike)[-1].startswith("met")
    assert table.table_row(line, before, worse)[-1].startswith("missed")


def test_only_warnings_of_reliability_count(table):
    from vbsvm import ReliabilityWarning

    for category, expected in ((ReliabilityWarning, True), (UserWarning, False)):
        with table.recorded() as found:
            warnings.warn("a result", category, stacklevel=1)
        assert table.is_warned(found) is expected


@pytest.mark.parametrize(("note", "unmarked"), [("posterior interval", 1.0), ("interval too narrow", 0.0)])
def test_intervals_that_the_table_marks_are_set_apart(truth, monkeypatch, note, unmarked):
    from benchmarks import truth_components

    class Fake:
        def __init__(self, *_, **__): ...

        def fit(self):
            return self

        def variance_components(self):
            index = pd.MultiIndex.from_tuples([("(1 | g)", "(intercept)")])
            found = pd.DataFrame({"std_dev": [1.0], "lower": [0.9], "upper": [1.1]}, index=index)
            found.attrs = {"note": note}
            return found

    monkeypatch.setattr(truth_components, "Model", Fake)
    found = truth_components._judged("y ~ (1 | g)", pd.DataFrame(), {("(1 | g)", "(intercept)"): 2.0})
    assert found["held"] == 0.0
    assert found["unmarked"] == unmarked
    assert np.isnan(found["unmarked_held"]) == (not unmarked)
