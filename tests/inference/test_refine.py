"""The end of a climb: steps of no length, wherever it came from; a state without a way back is left as it is."""

import numpy as np
import pytest

from models import source_of, spec_of
from vbsvm import Variational
from vbsvm.inference.loop import Status, optimize, refined
from vbsvm.inference.profiled import ProfiledNewton
from vbsvm.inference.steps import CAVI, AndersonNewton, evaluate_state, largest_change


def problem(n=400, d=6, kind="overlapping"):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, d))
    y = np.where(X[:, 0] + (kind != "separable") * rng.logistic(size=n) > 0, 1.0, -1.0)
    if kind == "correlated":
        X[:, 1] = X[:, 0] + 1e-3 * X[:, 1]
    return spec_of(d), source_of(X, y)


def length(spec, source, state):
    """How far a step leads from a state."""
    strategy = AndersonNewton()
    return largest_change(state.packed, strategy.full_step(spec, strategy.evaluate(spec, source, state)).packed)


@pytest.mark.parametrize("kind", ["overlapping", "correlated", "separable"])
def test_climbs_of_two_kinds_end_at_the_same_place(kind):
    spec, source = problem(kind=kind)
    ends = [optimize(spec, source, spec.start(), one, 1e-12, 2000) for one in (ProfiledNewton(1e-12), AndersonNewton())]
    assert [one.ending for one in ends] == [Status.CONVERGED] * 2
    np.testing.assert_allclose(*(one.state.coefficients.mean for one in ends), rtol=0, atol=1e-9)
    assert (np.diff(ends[0].bounds) >= 0).all()


def test_only_small_tolerances_ask_for_it():
    spec, source = problem()
    rough = optimize(spec, source, spec.start(), AndersonNewton(), 1e-4, 2000)
    assert length(spec, source, rough.state) > 1e-6
    end, passes = refined(spec, source, evaluate_state(spec, source, rough.state), AndersonNewton(), 50)
    assert length(spec, source, end.state) < 1e-11
    assert 0 < passes < 50


def test_passes_are_limited():
    spec, source = problem()
    at = evaluate_state(spec, source, optimize(spec, source, spec.start(), AndersonNewton(), 1e-4, 2000).state)
    assert refined(spec, source, at, AndersonNewton(), 2)[1] == 2
    assert refined(spec, source, at, AndersonNewton(), 0) == (at, 0)


def test_a_step_that_cannot_be_made_ends_it():
    class Nowhere:
        def evaluate(self, spec, source, state):
            return evaluate_state(spec, source, state)

        def full_step(self, spec, at):
            raise FloatingPointError

    spec, source = problem()
    at = evaluate_state(spec, source, Variational().run(spec, source).state)
    assert refined(spec, source, at, Nowhere(), 50) == (at, 1)


def test_the_papers_sweeps_have_no_other_steps():
    assert CAVI().refinement is None
