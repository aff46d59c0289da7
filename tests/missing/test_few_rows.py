"""Missing values where predictors outnumber the observations: the same results as by matrices in general."""

from dataclasses import replace

import numpy as np
import pytest

from incomplete_models import incomplete_model
from vbsvm import VBSVC, Variational, VBLogistic
from vbsvm.base.distributions import InverseWishart
from vbsvm.base.update_mode import mean_field
from vbsvm.inference.inputs import learn_inputs
from vbsvm.missing.labelled_inputs import LabelledInputs, few_rows, symmetric_inverse
from vbsvm.model.interfaces import PointDistribution
from vbsvm.model.likelihoods.hinge import EXACT_HINGE
from vbsvm.model.likelihoods.logistic import EXACT_LOGISTIC
from vbsvm.model.row_pass import CompleteRows
from vbsvm.model.sweep import elbo_terms, pass_rows

IN_GENERAL = property(lambda _: False)


def table(n=12, d=40, share=0.15):
    """Rows with weights: some complete, two with the same pattern, one without any value; some columns are known."""
    rng = np.random.default_rng(3)
    X = rng.normal(size=(n, d)) + rng.normal(size=(n, 1))
    y = np.where(X[:, :4].sum(axis=1) + rng.normal(size=n) > 0, 1.0, -1.0)
    lost = rng.random(X.shape) < share
    lost[:2], lost[2], lost[:, :3] = False, lost[3], False
    X[lost] = np.nan
    return X, y, rng.uniform(0.5, 2.0, size=n)


def without_any_value(X):
    """All columns miss a value, and the last row misses all."""
    X = X.copy()
    X[-1] = np.nan
    return X


def parts(source):
    found = []
    source.sum_parts(lambda part: 0 if isinstance(part, CompleteRows) else found.append(part.rows) or 0)
    return found


@pytest.fixture(params=["known columns", "a row without any value"])
def problem(request):
    X, y, s = table()
    return incomplete_model(
        X if request.param == "known columns" else without_any_value(X), y, s, labels="regressor", psi=40.0
    )


def test_a_pass_has_the_same_sums(problem, monkeypatch):
    spec, source = problem
    fitted = Variational().run(spec, source).state
    for likelihood in (spec.likelihood, EXACT_HINGE, EXACT_LOGISTIC):
        model = replace(spec, likelihood=likelihood)
        found = pass_rows(model, fitted, source, mean_field, with_curvature=True)
        assert parts(source)[0].cache["moments"].distribution is fitted.missing.inputs
        with monkeypatch.context() as patch:
            patch.setattr(LabelledInputs, "has_few_rows", IN_GENERAL)
            expected = pass_rows(model, fitted, source, mean_field, with_curvature=True)
            bound = elbo_terms(model, fitted, expected.row_bound, expected.missing)
        np.testing.assert_allclose(found.gram.matrix, expected.gram.matrix, rtol=1e-8, atol=1e-8)
        np.testing.assert_allclose(found.curvature.matrix, expected.curvature.matrix, rtol=1e-8, atol=1e-8)
        np.testing.assert_allclose(found.cross, expected.cross, rtol=1e-8, atol=1e-8)
        assert [found.row_bound, found.constant] == pytest.approx([expected.row_bound, expected.constant], rel=1e-8)
        assert elbo_terms(model, fitted, found.row_bound, found.missing) == pytest.approx(bound, rel=1e-8)
    start = fitted.with_coefficients(PointDistribution(fitted.coefficients.mean))
    found = pass_rows(spec, start, source, mean_field, with_curvature=True)
    monkeypatch.setattr(LabelledInputs, "has_few_rows", IN_GENERAL)
    expected = pass_rows(spec, start, source, mean_field, with_curvature=True)
    np.testing.assert_allclose(found.gram.matrix, expected.gram.matrix, rtol=1e-8, atol=1e-8)
    assert found.row_bound == pytest.approx(expected.row_bound, rel=1e-8)
    assert found.curvature is expected.curvature is None


def test_the_same_distribution_is_learned(problem, monkeypatch):
    found = learn_inputs(*problem, 200)
    learned = few_rows(found.distribution)
    assert found.converged
    assert learned is not None
    assert learned.K.any()
    for prior in (learned.K, np.zeros_like(learned.K)):
        quick = replace(learned, K=prior)
        with monkeypatch.context() as patch:
            patch.setattr(LabelledInputs, "has_few_rows", IN_GENERAL)
            general = replace(learned, K=prior)
            precision, coefficients = general.precision, general.coefficients
        np.testing.assert_allclose(quick.precision, precision, rtol=1e-8, atol=1e-8)
        np.testing.assert_allclose(quick.coefficients, coefficients, rtol=1e-8, atol=1e-8)
    np.testing.assert_allclose(learned.unpack(learned.pack()).residuals.scale, learned.residuals.scale, rtol=1e-12)
    monkeypatch.setattr(LabelledInputs, "has_few_rows", IN_GENERAL)
    expected = learn_inputs(*problem, 200).distribution.inputs
    np.testing.assert_allclose(learned.precision, expected.precision, rtol=1e-7, atol=1e-7)
    np.testing.assert_allclose(learned.coefficients, expected.coefficients, rtol=1e-7, atol=1e-7)


def test_an_extrapolation_without_a_positive_covariance_is_undone(problem, monkeypatch):
    expected, unpack, spoilt = learn_inputs(*problem, 200), LabelledInputs.unpack, []

    def unpack_once_wrong(self, numbers):
        result = unpack(self, numbers)
        if spoilt:
            return result
        spoilt.append(result)
        return replace(result, residuals=InverseWishart(-result.residuals.scale, result.residuals.degrees))

    monkeypatch.setattr(LabelledInputs, "unpack", unpack_once_wrong)
    found = learn_inputs(*problem, 200)
    assert spoilt
    assert found.converged
    np.testing.assert_allclose(found.distribution.precision, expected.distribution.precision, rtol=1e-6, atol=1e-6)


def test_inverse_of_what_is_not_positive_is_an_error():
    with pytest.raises(np.linalg.LinAlgError):
        symmetric_inverse(np.diag([1.0, -1.0]))


def test_more_observations_than_predictors_are_fitted_in_general():
    X, y, _ = table(60, 5)
    spec, source = incomplete_model(X, y, labels="regressor")
    state = Variational().run(spec, source).state
    assert few_rows(state.missing.inputs) is None
    assert not parts(source)[0].cache


@pytest.mark.parametrize("classifier", [VBSVC, VBLogistic])
def test_a_fit_has_the_same_coefficients_and_predictions(classifier, monkeypatch):
    X, y, s = table(20, 300, 0.1)
    X = without_any_value(X)
    found = classifier().fit(X, y, sample_weight=s)
    monkeypatch.setattr(LabelledInputs, "has_few_rows", IN_GENERAL)
    expected = classifier().fit(X, y, sample_weight=s)
    size = np.abs(expected.coef_).max()
    np.testing.assert_allclose(found.coef_, expected.coef_, atol=1e-6 * size)
    np.testing.assert_allclose(found.predict_proba(X), expected.predict_proba(X), atol=1e-6)
