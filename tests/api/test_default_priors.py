"""Priors that nobody has given: which ones a model gets, and that nothing about the data's units decides on them."""

import warnings

import numpy as np
import pandas as pd
import pytest

from vbsvm import Files, Gibbs, Model, Normal, ReliabilityWarning, VBLogistic

FLAT, WEAK = Normal(1e8), Normal(6.25)


@pytest.fixture(scope="module")
def data():
    rng, n = np.random.default_rng(0), 80
    arm = np.tile([-1.0, 1.0], n // 2)  # mean 0 and standard deviation 1 as they are
    return pd.DataFrame({"arm": arm, "wide": 3 * arm, "y": (arm + rng.logistic(size=n) > 0).astype(int)})


def priors_of(model):
    return {block.name: block.prior for block in model.spec.blocks}


def test_columns_that_are_standardised_as_given_have_the_prior_of_others(data, tmp_path):
    """Treatments coded as ±1, half of each, would have a flat prior if their scale decided."""
    expected = {"intercept": FLAT, "fixed effects": WEAK}
    assert priors_of(Model("y ~ arm", data)) == priors_of(Model("y ~ wide", data)) == expected
    data.to_csv(tmp_path / "data.csv", index=False)
    assert priors_of(Model("y ~ arm", Files(tmp_path / "data.csv"))) == expected
    own, wide = (Model(f"y ~ {name}", data).fit().summary()["estimate"].iloc[1] for name in ("arm", "wide"))
    np.testing.assert_allclose(own, 3 * wide, rtol=1e-6)


def test_columns_that_are_not_standardised_have_a_flat_prior(data):
    assert priors_of(Model("y ~ wide", data, standardize=False)) == {"fixed effects": FLAT}
    assert priors_of(Model("y ~ wide", data, likelihood="hinge")) == {"fixed effects": FLAT}


def test_separated_classes_under_a_given_prior():
    """The posterior is known then, and depends on the prior; where that has an inferred scale it is hardly known."""
    X = np.random.default_rng(2).normal(size=(60, 3))
    data = pd.DataFrame(X, columns=["a", "b", "c"]).assign(y=X[:, 0] > 0)
    model = Model("y ~ a + b + c", data)
    fit, drawn = model.fit(), model.fit(Gibbs(draws=1000, tune=200), random_state=0).summary()
    assert "Complete separation" in words(fit.summary())
    assert "depend on the prior: report it with them." in words(fit.summary())
    assert (abs(fit.summary()["estimate"] - drawn["estimate"]) < 0.15 * drawn["std_error"]).all()
    assert (fit.summary()["std_error"] / drawn["std_error"]).between(0.85, 1.15).all()
    assert "cannot be relied on" in words(VBLogistic().fit(X, data["y"]).summary())
    overlapping = Model("y ~ b + c", data).fit().summary()
    assert "Complete separation" not in words(overlapping)


def words(table):
    return table.attrs["note"]


class TestGroupsWithoutReplication:
    """The variance of their effects is the prior's, and users are told."""

    @pytest.mark.parametrize(
        ("g", "why"), [(np.zeros(80), "one level only"), (np.arange(80), "one observation for each level")]
    )
    def test_they_are_told(self, data, g, why):
        with pytest.warns(ReliabilityWarning, match=f"factor 'g' has {why}.*depends on the prior") as told:
            Model("y ~ arm + (1 | g)", data.assign(g=g.astype(int))).fit()
        assert len(told) == 1

    def test_nothing_is_said_of_others(self, data):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            Model("y ~ arm + (1 | g)", data.assign(g=np.arange(80) // 8)).fit()
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            Model("y ~ arm + (1 | g)", data.assign(g=np.arange(80), n=5.0), weights="n").fit()
        assert not any("does not determine" in str(one.message) for one in told)


class TestCoefficientsThatDependOnThePrior:
    """A rare category whose observations all have the same outcome, and two copies of a column."""

    @pytest.fixture
    def frame(self):
        rng, n = np.random.default_rng(1), 400
        x, rare = rng.normal(size=n), np.arange(n) < 3
        y = (x + rng.logistic(size=n) > 0) | rare
        return pd.DataFrame({"y": y, "x": x, "twin": x, "rare": rare.astype(float), "common": rng.integers(0, 2, n)})

    @pytest.mark.parametrize(("formula", "named"), [("y ~ x + rare", "rare"), ("y ~ x + twin", "x, twin")])
    def test_they_are_named(self, frame, formula, named):
        assert f"The data say little about {named}: " in words(Model(formula, frame).fit().summary())

    def test_others_are_not(self, frame):
        for model in (
            Model("y ~ x + common", frame),
            Model("y ~ x + common", frame.head(30)),
            Model("y ~ x + rare", frame, {"rare": Normal(0.05)}),
            Model("y ~ x + common", frame, likelihood="hinge"),
        ):
            assert "say little" not in words(model.fit().summary())


@pytest.mark.parametrize("standardize", [True, False])
def test_columns_in_small_units_are_to_be_standardised(data, standardize):
    x = np.random.default_rng(0).normal(size=80)
    model = Model("y ~ x", data.assign(x=1e-6 * (x + data["y"])), standardize=standardize)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        model.fit()
    assert ["small units" in str(one.message) for one in told] == [True] * (not standardize)
