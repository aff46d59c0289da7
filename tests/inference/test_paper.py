"""Agreement with plain transcriptions of the paper's algorithms that are swept until they stand still."""

import numpy as np
import pytest

from reference import algorithm_1, algorithm_2, simulate
from shown import by_mean_field
from vbsvm import VBSVC, Normal, Variational

TIGHT = Variational(tol=1e-10)
CELLS = [(100, 10), (200, 50), (100, 100), (500, 10)]


@pytest.mark.parametrize(("n", "d"), CELLS)
@pytest.mark.parametrize("accelerate", [True, False])
def test_algorithm_2(n, d, accelerate):
    X, y = simulate(n, d, seed=3)
    mu, Sigma, alpha, bounds = algorithm_2(X, y)
    # For plain sweeps an increase of 1e-10 is far from rest.
    clf = VBSVC(inference=TIGHT if accelerate else Variational(1e-13, 20_000, accelerate=False)).fit(X, y)
    clf = by_mean_field(clf)
    assert clf.converged_
    np.testing.assert_allclose(clf.coef_[0], mu[1:], atol=1e-5)
    np.testing.assert_allclose(clf.intercept_, mu[:1], atol=1e-5)
    np.testing.assert_allclose(clf.coef_cov_[0], Sigma[1:, 1:], atol=1e-5)
    np.testing.assert_allclose(clf.intercept_std_, np.sqrt(Sigma[:1, 0]), atol=1e-5)
    np.testing.assert_allclose(clf.penalty_, [alpha], rtol=1e-5)
    assert clf.elbo_ == pytest.approx(bounds[-1], abs=1e-8)


@pytest.mark.parametrize("alpha", [1e-3, 0.1, 1.0, 30.0])
def test_algorithm_1(alpha):
    X, y = simulate(200, 10, seed=5)
    mu, Sigma, bound = algorithm_1(X, y, alpha)
    clf = by_mean_field(VBSVC(Normal(1 / (4 * alpha)), TIGHT, fit_intercept=False).fit(X, y))
    np.testing.assert_allclose(clf.coef_[0], mu, atol=1e-5)
    np.testing.assert_allclose(clf.coef_cov_[0], Sigma, atol=1e-5)
    np.testing.assert_allclose(clf.penalty_, [alpha])
    np.testing.assert_array_equal(clf.intercept_, [0.0])
    assert clf.elbo_ == pytest.approx(bound, abs=1e-8)


def test_without_acceleration_the_sweeps_are_the_papers():
    X, y = simulate(60, 4, seed=1)
    mu, _, alpha, bounds = algorithm_2(X, y, max_sweeps=7, stop=0)
    clf = VBSVC(inference=Variational(accelerate=False, max_iter=8, tol=1e-300))
    with pytest.warns(UserWarning, match="reached max_iter .8 iterations."):
        clf.fit(X, y)
    np.testing.assert_allclose(clf.coef_[0], mu[1:], rtol=1e-11)
    np.testing.assert_allclose(clf.penalty_, [alpha], rtol=1e-11)
    np.testing.assert_allclose(clf.elbo_trace_[0], bounds, rtol=1e-12)
