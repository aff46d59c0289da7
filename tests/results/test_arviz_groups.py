"""What ArviZ gets beside the draws: labels, weights, and the log likelihood of each row."""

import numpy as np
import pandas as pd
import pytest

from vbsvm import VBSVC, Gibbs, Model, load

pytest.importorskip("arviz", reason="ArviZ is not installed")
pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
N = 90


def data():
    rng = np.random.default_rng(2)
    frame = pd.DataFrame(
        {"x": rng.normal(size=N), "g": rng.integers(0, 6, N), "w": rng.integers(0, 3, N).astype(float)}
    )
    score = frame["x"] + rng.normal(size=6)[frame["g"]]
    return frame.assign(y=np.where(score + rng.logistic(size=N) > 0, "yes", "no"))


@pytest.mark.parametrize("likelihood", ["hinge", "logistic"])
def test_each_row_has_the_log_likelihood_of_its_score(likelihood):
    frame = data()
    fit = Model("y ~ x + (1 | g)", frame, weights="w", likelihood=likelihood).fit(
        Gibbs(draws=15, tune=20, chains=2), random_state=1
    )
    found = fit.to_arviz(log_likelihood=True)
    kept = frame[frame["w"] > 0]
    np.testing.assert_array_equal(found["observed_data"]["row"], kept.index)
    np.testing.assert_array_equal(found["observed_data"]["outcome"], kept["y"] == "yes")
    np.testing.assert_array_equal(found["constant_data"]["weights"], kept["w"])
    draws = found["posterior"]
    groups = draws["g"].to_numpy()
    scores = draws["intercept"].to_numpy()[..., None] + draws["coefficients"].to_numpy() * kept["x"].to_numpy()
    margins = (scores + groups[..., kept["g"].to_numpy()]) * np.where(kept["y"] == "yes", 1.0, -1.0)
    log = -np.log1p(np.exp(-margins)) if likelihood == "logistic" else -2.0 * np.maximum(1.0 - margins, 0.0)
    np.testing.assert_allclose(found["log_likelihood"]["outcome"], log * kept["w"].to_numpy(), rtol=1e-8, atol=1e-8)
    assert ("caveat" in found["log_likelihood"].attrs) == (likelihood == "hinge")


def test_rows_that_are_not_at_hand_or_incomplete_are_said(tmp_path):
    frame, inference = data(), Gibbs(draws=10, tune=10, chains=2)
    clf = VBSVC(inference=inference, random_state=0).fit(frame[["x", "w"]], frame["y"])
    assert "log_likelihood" not in clf.to_arviz()
    assert clf.to_arviz(log_likelihood=True)["log_likelihood"]["outcome"].shape == (2, 10, N)
    clf.save(tmp_path / "model")
    again = load(tmp_path / "model")
    assert "observed_data" not in again.to_arviz()
    with pytest.raises(ValueError, match="needs the training data"):
        again.to_arviz(log_likelihood=True)
    frame.loc[3, "x"] = np.nan
    with pytest.raises(ValueError, match="needs complete data"):
        Model("y ~ x", frame).fit(inference, random_state=0).to_arviz(log_likelihood=True)
