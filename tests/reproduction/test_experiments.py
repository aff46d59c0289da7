"""The paper's experiments: the exact SVM, resumable runs, and claims that can be lost."""

import csv
import json
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from scipy.special import expit
from sklearn.linear_model import LogisticRegression
from sklearn.svm import SVC

from reproduction import claims, command, data, default_svm, page, solver, work
from reproduction.claims import CLAIMS, Outcome
from reproduction.findings import Findings, Interval
from reproduction.journal import NAME, Journal, OtherSettingsError
from reproduction.work import GIBBS, MCMC, METHODS, PAPERS_METHODS, SVM, VB, Job, Result, Settings
from vbsvm import Gibbs, Variational
from vbsvm.cli import main

ROOT = Path(__file__).parents[2]
SMALL = Settings(data_sets=2, splits=1, holdouts=2, sweeps=30, spam_sweeps=10)
ALPHAS = np.logspace(2.5, -2, 10)


def rows(n, d, seed):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    return X, np.where(rng.random(n) < expit(0.7 + X @ rng.normal(size=d)), 1.0, -1.0)


def loss(X, signs, weights, intercept, alpha):
    return np.maximum(1 - signs * (X @ weights + intercept), 0).sum() + alpha * weights @ weights


class TestSolver:
    @pytest.mark.parametrize(("n", "d"), [(60, 1), (150, 10), (75, 100), (200, 40)])
    def test_it_agrees_with_libsvm(self, n, d):
        X, signs = rows(n, d, seed=d)
        weights, intercepts = solver.solve_path(X, signs, ALPHAS)
        for alpha, w, b in zip(ALPHAS, weights, intercepts, strict=True):
            svc = SVC(kernel="linear", C=1 / (2 * alpha), tol=1e-8).fit(X, signs)
            best = loss(X, signs, svc.coef_[0], svc.intercept_[0], alpha)
            # The gap that ends the search bounds our excess; LIBSVM's is up to 2e-4, whatever its tolerance.
            assert loss(X, signs, w, b, alpha) < (1 + 1e-8) * best
            np.testing.assert_allclose(w, svc.coef_[0], atol=1e-3 * np.abs(svc.coef_).max())

    def test_a_penalty_alone_has_the_same_solution_as_among_others(self):
        X, signs = rows(80, 5, seed=1)
        together, _ = solver.solve_path(X, signs, ALPHAS)
        alone, _ = solver.solve_path(X, signs, ALPHAS[3:4])
        np.testing.assert_allclose(alone[0], together[3], rtol=1e-10)

    def test_a_hard_hold_out_is_solved(self):
        """A hold-out of the simulation on which some machines lose the gap of the weakest penalty to rounding."""
        split = data.simulate(500, 50, np.random.default_rng([0, 0, 500, 50, 187]))
        out = list(default_svm._holdouts(split.signs, 9, 2523637559))[8]
        centre, scale = default_svm._standardisation(split.X[~out])
        X, signs, alpha = (split.X[~out] - centre) / scale, split.signs[~out], default_svm.FIRST_GRID[-1]
        weights, intercepts = solver.solve_path(X, signs, default_svm.FIRST_GRID)
        svc = SVC(kernel="linear", C=1 / (2 * alpha), tol=1e-6).fit(X, signs)
        best = loss(X, signs, svc.coef_[0], svc.intercept_[0], alpha)
        assert loss(X, signs, weights[-1], intercepts[-1], alpha) <= best * (1 + solver.LARGEST_GAP)

    def test_the_best_point_counts_where_rounding_loses_it_again(self, monkeypatch):
        """The gap comes down to ``reached`` and is 1 from then on, as rounding may have it."""
        X, signs = rows(80, 5, seed=1)
        exact, _ = solver.solve_path(X, signs, ALPHAS)
        gap = solver._Point.gap

        def losing(reached):
            lost = set()

            def rounded(point):
                found = gap(point)
                for k, cost in enumerate(point.costs):
                    if cost in lost:
                        found[k] = 1.0
                    elif found[k] < reached:
                        lost.add(cost)
                        found[k] = reached
                return found

            return rounded

        monkeypatch.setattr(solver._Point, "gap", losing(0.5 * solver.LARGEST_GAP))
        nearly, _ = solver.solve_path(X, signs, ALPHAS)
        # The loss is strongly convex with modulus 2α and the gap a share of it: ‖w − w*‖² ≤ gap · loss / α.
        for w, target, alpha in zip(nearly, exact, ALPHAS, strict=True):
            assert np.square(w - target).sum() <= solver.LARGEST_GAP * len(X) / alpha
        monkeypatch.setattr(solver._Point, "gap", losing(2.0 * solver.LARGEST_GAP))
        with pytest.raises(FloatingPointError, match="was not solved exactly"):
            solver.solve_path(X, signs, ALPHAS)

    def test_it_says_when_it_fails(self, monkeypatch):
        monkeypatch.setattr(solver, "MOST_STEPS", 2)
        with pytest.raises(FloatingPointError, match=r"α = .* was not solved exactly"):
            solver.solve_path(*rows(80, 5, seed=1), ALPHAS)


class TestDefaultMethod:
    def test_it_takes_the_penalty_with_the_least_holdout_error(self):
        X, signs = rows(60, 20, seed=4)
        held = list(default_svm._holdouts(signs, 3, 9))
        errors = []
        for alpha in default_svm.FIRST_GRID:
            found = []
            for out in held:
                centre, scale = X[~out].mean(axis=0), X[~out].std(axis=0)
                svc = SVC(kernel="linear", C=1 / (2 * alpha), tol=1e-6).fit((X[~out] - centre) / scale, signs[~out])
                wrong = svc.predict((X[out] - centre) / scale) != signs[out]
                found.append(0.5 * (wrong[signs[out] > 0].mean() + wrong[signs[out] < 0].mean()))
            errors.append(np.mean(found))
        coarse = default_svm.FIRST_GRID[int(np.argmin(errors))]
        machine = default_svm.fit(X, signs, 3, 9)
        assert machine.alpha in coarse * default_svm.SECOND_GRID
        svc = SVC(kernel="linear", C=1 / (2 * machine.alpha), tol=1e-8).fit((X - X.mean(axis=0)) / X.std(axis=0), signs)
        np.testing.assert_allclose(machine.weights, svc.coef_[0], atol=1e-4)

    def test_holdouts_keep_both_classes_on_both_sides(self):
        signs = np.array([1.0] * 40 + [-1.0] * 4)
        for out in default_svm._holdouts(signs, 20, 0):
            assert {*signs[out]} == {*signs[~out]} == {-1.0, 1.0}

    def test_balanced_error(self):
        signs = np.array([1.0, 1.0, 1.0, 1.0, -1.0])
        scores = np.array([[1.0, 2.0, 3.0, -1.0, -1.0], [1.0, 1.0, 1.0, 1.0, 0.0], [-1.0, -1.0, -1.0, -1.0, 1.0]])
        np.testing.assert_allclose(default_svm.balanced_error(signs, scores), [0.125, 0.0, 1.0])


class TestData:
    def test_simulated_rows_follow_the_papers_model(self):
        split = data.simulate(500, 10, np.random.default_rng(0))
        assert split.X.shape == (500, 10)
        assert split.X_test.shape == (1000, 10)
        assert {*split.signs} == {-1.0, 1.0}

    def test_simulated_labels_are_those_of_a_logistic_model(self):
        """Coefficients of logistic regression are standard normal over data sets, the intercept's too."""
        found = []
        for k in range(60):
            split = data.simulate(500, 2, np.random.default_rng(k))
            X, signs = np.r_[split.X, split.X_test], np.r_[split.signs, split.signs_test]
            model = LogisticRegression(C=np.inf).fit(X, signs)
            found.append(np.r_[model.intercept_, model.coef_[0]])
        spread = np.sqrt(np.mean(np.square(found), axis=0))
        np.testing.assert_allclose(spread, 1.0, atol=4 * np.sqrt(0.5 / 60))
        assert abs(split.X.std() - 1) < 0.1

    def test_toenail_is_split_by_visits(self):
        train, test = data.split_toenail(np.random.default_rng(0))
        assert (len(train), len(test)) == (1431, 477)
        assert len(set(test["patientID"]) & set(train["patientID"])) > 200
        X, signs = data.toenail_columns(data.toenail())
        assert (signs > 0).sum() == 408
        np.testing.assert_array_equal(X[:, 2], X[:, 0] * X[:, 1])

    def test_cardiac_test_rows_are_complete(self, monkeypatch):
        rng = np.random.default_rng(0)
        X = rng.normal(size=(40, 4))
        X[:16, 3] = np.nan
        monkeypatch.setattr(data, "cardiac", lambda: (X, np.where(X[:, 0] > 0, 1.0, -1.0)))
        split = data.split_cardiac(rng)
        assert len(split.X_test) == 6
        assert not np.isnan(split.X_test).any()
        assert np.isnan(split.X).any(axis=1).sum() == 16
        assert len(split.complete().X) == 18


class TestJobs:
    def test_methods_see_the_same_data_and_replicates_do_not(self):
        streams = {method: Job("simulation", "100x10", 3, method).stream(SMALL) for method in METHODS}
        assert len({tuple(stream) for stream in streams.values()}) == 1
        everything = {tuple(job.stream(Settings())) for job in work.jobs_of(work.EXPERIMENTS, Settings())}
        assert len(everything) == 9 * 200 + 2 * 100 + 1

    def test_there_is_one_job_for_each_method_and_data_set(self):
        for methods in (PAPERS_METHODS, METHODS):
            jobs, n = work.jobs_of(work.EXPERIMENTS, SMALL, methods), len(methods)
            assert len(set(jobs)) == len(jobs) == (n - 1) + 2 * 9 * n + 2 * n
            assert {job.method for job in jobs} == set(methods)
            assert [job.method for job in work.timed_jobs(("toenail", "spam"), methods)] == list(methods)

    @pytest.mark.parametrize("method", METHODS)
    @pytest.mark.parametrize(("experiment", "cell"), [("simulation", "100x10"), ("toenail", "")])
    def test_a_job_gives_the_same_error_each_time(self, experiment, cell, method):
        job = Job(experiment, cell, 1, method)
        first, second = work.run(job, SMALL), work.run(job, SMALL)
        assert first.error == second.error
        assert 0 < first.error <= 0.55
        assert work.run(replace(job, replicate=2), SMALL).error != first.error or experiment == "toenail"

    def test_spam_gives_inclusion_probabilities(self):
        found = work.run(Job("spam", "", 0, MCMC), SMALL)
        assert found.error is None
        assert len(found.inclusion) == len(found.positive) == 57


def some_results(settings=SMALL):
    return [
        Result(Job("toenail", "", k, method), 0.1 + 0.01 * k, 0.5) for k in range(settings.splits) for method in METHODS
    ]


class TestJournal:
    def test_results_come_back(self, tmp_path):
        journal = Journal(tmp_path, SMALL)
        for result in some_results():
            journal.add(result)
        journal.add(Result(Job("spam", "", 0, VB), None, 1.0, (0.1, 1.0), (0.5, 1.0)))
        assert Journal(tmp_path, SMALL).results == journal.results

    def test_half_a_line_is_dropped(self, tmp_path):
        journal = Journal(tmp_path, SMALL)
        for result in some_results():
            journal.add(result)
        text = (tmp_path / NAME).read_text()
        (tmp_path / NAME).write_text(text[:-20])
        again = Journal(tmp_path, SMALL)
        assert len(again.results) == 3
        again.add(some_results()[-1])
        assert (tmp_path / NAME).read_text() == text

    def test_other_settings_are_refused(self, tmp_path):
        Journal(tmp_path, SMALL)
        with pytest.raises(OtherSettingsError, match="another folder"):
            Journal(tmp_path, replace(SMALL, seed=1))
        assert json.loads((tmp_path / NAME).read_text())["settings"]["seed"] == 0


def findings(errors, experiment="toenail", cell="", n=40):
    """Errors with a little noise around the given means, the same for all methods but for a little more."""
    rng = np.random.default_rng(0)
    shared = 0.03 * rng.normal(size=n)
    return {
        Job(experiment, cell, k, method): Result(
            Job(experiment, cell, k, method), float(mean + shared[k] + 0.002 * rng.normal()), 1.0
        )
        for method, mean in errors.items()
        for k in range(n)
    }


def outcome_of(text, results):
    (claim,) = (claim for claim in CLAIMS if text in claim.text)
    return claim.judge(Findings(results)).outcome


class TestSettings:
    def test_inferences_are_the_papers(self):
        assert work._inference(VB, 5000) == Variational(tol=1e-10, bound="paper")
        assert work._inference(MCMC, 5000) == Gibbs(5000, 5000, chains=1, accelerate=False)
        assert work._inference(GIBBS, 5000) == Gibbs(5000, 5000, chains=1)
        assert (Settings().sweeps, Settings().spam_sweeps, work.RHO, work.PAPERS_HOLDOUTS) == (5000, 50_000, 0.01, 100)

    def test_times_are_the_papers(self):
        assert claims.PAPERS_SECONDS == {
            "simulation": {SVM: 571.75, VB: 1.68, MCMC: 82.31},
            "toenail": {SVM: 3668.70, VB: 171.85, MCMC: 3597.12},
            "spam": {VB: 4560.0, MCMC: 36000.0},
            "cardiac": {SVM: 3109.40, VB: 1028.18, MCMC: 1718.98},
        }

    def test_both_grids_are_searched(self, monkeypatch):
        seen = []
        monkeypatch.setattr(
            default_svm, "_errors", lambda alphas, *rest: (seen.append(alphas), np.abs(alphas - 1.0))[1]
        )
        alpha = default_svm.fit(*rows(40, 2, seed=0), 1, 0).alpha
        assert [len(alphas) for alphas in seen] == [10, 9]
        assert alpha == pytest.approx(1.0)


class TestClaims:
    @pytest.mark.parametrize(
        ("text", "experiment", "cells", "seen", "not_seen"),
        [
            ("For d = 10 the default SVM", "simulation", claims.NARROW, (0.2, 0.2, 0.2), (0.3, 0.2, 0.2)),
            ("For d = 50 and d = 100", "simulation", claims.WIDE, (0.22, 0.2, 0.2), (0.18, 0.2, 0.2)),
            ("VB and MCMC with random intercepts", "toenail", ("",), (0.5, 0.2, 0.2), (0.1, 0.2, 0.2)),
            ("Methods that learn from rows", "cardiac", ("",), (0.3, 0.2, 0.2), (0.2, 0.3, 0.2)),
            ("VB is slightly better than MCMC", "cardiac", ("",), (0.3, 0.2, 0.21), (0.3, 0.21, 0.2)),
        ],
    )
    def test_differences(self, text, experiment, cells, seen, not_seen):
        for errors, expected in ((seen, Outcome.SEEN), (not_seen, Outcome.NOT_SEEN)):
            results = {}
            for cell in cells:
                results |= findings(dict(zip((SVM, VB, MCMC), errors, strict=True)), experiment, cell)
            assert outcome_of(text, results) is expected
            less = {job: one for job, one in results.items() if job.cell != cells[-1]}
            assert outcome_of(text, less) is Outcome.NOT_RUN

    def test_methods_are_compared_on_the_data_sets_that_both_have_seen(self):
        results = findings({SVM: 0.5, VB: 0.2, MCMC: 0.19, GIBBS: 0.3})
        for k in range(20, 40):
            del results[Job("toenail", "", k, MCMC)]
        results[Job("toenail", "", 39, VB)] = replace(results[Job("toenail", "", 39, VB)], error=1.0)
        found = Findings(results)
        assert found.difference("toenail", ("",), VB, MCMC).count == 20
        assert found.difference("toenail", ("",), VB, MCMC).mean == pytest.approx(0.01, abs=0.002)
        assert found.by_gibbs().difference("toenail", ("",), VB, MCMC).mean < -0.07
        assert outcome_of("MCMC tends to", found.by_gibbs().results) is Outcome.NOT_SEEN

    def test_every_claim_can_be_seen_not_seen_or_left_open(self):
        text = "MCMC tends to have slightly lower errors"
        assert outcome_of(text, findings({SVM: 0.5, VB: 0.2, MCMC: 0.19})) is Outcome.SEEN
        assert outcome_of(text, findings({SVM: 0.5, VB: 0.19, MCMC: 0.2})) is Outcome.NOT_SEEN
        assert outcome_of(text, findings({SVM: 0.5, VB: 0.2, MCMC: 0.2}, n=4)) is Outcome.NOT_DECIDED
        assert outcome_of(text, {}) is Outcome.NOT_RUN

    def test_alike(self):
        text = "in general comparable"
        same, apart = {}, {}
        for cell in claims.ALL_CELLS:
            same |= findings({VB: 0.2, MCMC: 0.204}, "simulation", cell)
            apart |= findings({VB: 0.2, MCMC: 0.22}, "simulation", cell)
        assert outcome_of(text, same) is Outcome.SEEN
        assert outcome_of(text, apart) is Outcome.NOT_SEEN
        assert outcome_of(text, {**same, **findings({VB: 0.2, MCMC: 0.3}, "simulation", "100x10")}) is Outcome.SEEN

    def test_more_rows(self):
        falling, rising = {}, {}
        for n, error in ((100, 0.3), (200, 0.25), (500, 0.2)):
            for d in (10, 50, 100):
                falling |= findings({SVM: error}, "simulation", f"{n}x{d}")
                rising |= findings({SVM: 0.5 - error}, "simulation", f"{n}x{d}")
        assert outcome_of("More training rows", falling) is Outcome.SEEN
        assert outcome_of("More training rows", rising) is Outcome.NOT_SEEN

    @pytest.mark.parametrize(
        ("seconds", "outcome"),
        [
            ((100.0, 1.0, 50.0), Outcome.SEEN),
            ((5.0, 1.0, 50.0), Outcome.NOT_DECIDED),
            ((0.5, 1.0, 9), Outcome.NOT_SEEN),
        ],
    )
    def test_times(self, seconds, outcome):
        jobs = [Job("simulation", "200x10", 0, method, True) for method in (SVM, VB, MCMC)]
        results = {job: Result(job, 0.1, one) for job, one in zip(jobs, seconds, strict=True)}
        assert outcome_of("by far the fastest", results) is outcome

    def test_spam(self):
        names, _, _ = data.spam()

        def selected(vb, mcmc):
            return {
                job: Result(job, None, 1.0, tuple(found.get(name, 0.0) for name in names), (0.5,) * 57)
                for job, found in ((Job("spam", "", 0, VB), vb), (Job("spam", "", 0, MCMC), mcmc))
            }

        both = selected({"free": 1.0, "hp": 1.0, "email": 0.9, "table": 0.8}, {"free": 1.0, "hp": 1.0, "cs": 0.99})
        assert outcome_of("MCMC almost certainly selects", both) is Outcome.SEEN
        assert outcome_of("Predictors selected by VB", both) is Outcome.NOT_SEEN
        assert outcome_of("email and table", both) is Outcome.SEEN
        assert outcome_of("more extreme", both) is Outcome.NOT_SEEN
        assert outcome_of("MCMC almost certainly selects", selected({}, {"free": 1.0, "hp": 1.0})) is Outcome.NOT_SEEN
        assert outcome_of("more extreme", selected({"hp": 1.0}, {"hp": 0.9})) is Outcome.SEEN

    def test_intervals_cover_the_mean(self):
        """About 95 of 100; an interval half as wide covers some 67."""
        rng = np.random.default_rng(1)
        found = [Interval.of(rng.normal(size=20)) for _ in range(2000)]
        assert np.mean([one.low < 0 < one.high for one in found]) == pytest.approx(0.95, abs=0.015)
        assert np.mean([abs(one.mean) < 0.25 * (one.high - one.low) for one in found]) < 0.75


RUN = """
import sys
from pathlib import Path

sys.path.insert(0, {root!r})
from reproduction import command
from reproduction import page
from reproduction import work
from reproduction.journal import Journal
from reproduction.work import METHODS, Settings

work.PAPERS_HOLDOUTS = 2

if __name__ == "__main__":
    settings = Settings(splits=3, holdouts=2, sweeps=150)
    journal = Journal(Path("{folder}"), settings)
    command.run(journal, ("toenail",), METHODS, settings, {jobs})
    page.write(Path("{folder}"), journal.results, settings, {{}})
"""


class TestRuns:
    @pytest.fixture(autouse=True)
    def few_holdouts(self, monkeypatch):
        monkeypatch.setattr(work, "PAPERS_HOLDOUTS", 2)

    def test_killed_twice_a_run_ends_with_the_same_numbers(self, tmp_path):
        folders = {}
        for name, jobs in (("whole", 1), ("killed", 2)):
            folders[name] = tmp_path / name
            script = tmp_path / f"{name}.py"
            script.write_text(RUN.format(root=str(ROOT), folder=folders[name], jobs=jobs))
            journal = folders[name] / NAME
            for lines in (2, 5) if name == "killed" else ():
                process = subprocess.Popen([sys.executable, script], stderr=subprocess.DEVNULL)
                while process.poll() is None and (not journal.exists() or journal.read_text().count("\n") < lines):
                    time.sleep(0.01)
                assert process.poll() is None
                process.kill()
                process.wait()
            subprocess.run([sys.executable, script], check=True, capture_output=True)
        whole, killed = ((folder / "errors.csv").read_bytes() for folder in folders.values())
        assert whole == killed
        assert whole.count(b"\n") == 1 + 3 * 4

    def test_the_command_writes_numbers_figures_and_a_page(self, tmp_path, monkeypatch):
        monkeypatch.setattr(Settings, "quick", lambda self: SMALL)
        arguments = ["toenail", "--quick", "--jobs", "1", "--out", str(tmp_path)]
        done = CliRunner().invoke(command.reproduce, arguments)
        assert done.exit_code == 0, done.output
        assert "Claims of the paper" in done.output
        assert {path.name for path in tmp_path.iterdir()} == {
            NAME,
            "errors.csv",
            "seconds.csv",
            "inclusion.csv",
            "figure2.png",
            "index.html",
            "results.md",
        }
        shown = (tmp_path / "index.html").read_text()
        assert shown.count("<svg") == 1
        assert "VB and MCMC with random intercepts classify better" in shown
        with (tmp_path / "errors.csv").open() as file:
            assert [line["method"] for line in csv.DictReader(file)] == list(PAPERS_METHODS)
        before = (tmp_path / "errors.csv").read_bytes(), (tmp_path / "seconds.csv").read_bytes()
        CliRunner().invoke(command.reproduce, arguments)
        assert before == ((tmp_path / "errors.csv").read_bytes(), (tmp_path / "seconds.csv").read_bytes())
        assert "sampler (Gibbs)" not in shown
        CliRunner().invoke(command.reproduce, [*arguments, "--gibbs"])
        assert "sampler (Gibbs)" in (tmp_path / "index.html").read_text()
        assert (tmp_path / "errors.csv").read_text() == before[0].decode() + (
            (tmp_path / "errors.csv").read_text().splitlines(keepends=True)[-1]
        )
        refused = CliRunner().invoke(command.reproduce, arguments[:1] + arguments[2:])
        assert refused.exit_code == 1
        assert "other settings" in refused.output

    def test_from_a_checkout_the_command_line_has_it(self):
        done = CliRunner().invoke(main, ["reproduce", "--help"])
        assert done.exit_code == 0
        assert "[simulation|toenail|spam|cardiac|all]" in done.output.lower().replace("{", "[").replace("}", "]")

    def test_without_its_data_cardiac_is_left_out_with_a_reason(self, tmp_path, monkeypatch):
        monkeypatch.delenv("VBSVM_DATA", raising=False)
        done = CliRunner().invoke(command.reproduce, ["cardiac", "--out", str(tmp_path)])
        assert done.exit_code == 1
        assert "VBSVM_DATA is not set" in done.output
        text = page.write(tmp_path, {}, SMALL, {"cardiac": "There is no <file>."})
        assert "not run" in text
        assert "There is no &lt;file&gt;." in (tmp_path / "index.html").read_text()
