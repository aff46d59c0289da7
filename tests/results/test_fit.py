"""What users find on a fit and on an estimator by tab completion."""

import inspect

import numpy as np
import pandas as pd
import pytest

import vbsvm
from vbsvm import VBSVC, Model, VBLogistic


def public(thing):
    return [name for name in dir(thing) if not name.startswith("_")]


def test_a_fit_shows_documented_names():
    rng = np.random.default_rng(0)
    data = pd.DataFrame({"x": rng.normal(size=60), "y": rng.integers(0, 2, 60)})
    fit = Model("y ~ x", data).fit()
    assert isinstance(fit, vbsvm.Fit)
    of_class = [name for name in public(fit) if name not in ("classes", "spec")]  # the docstring of the class has these
    assert all(inspect.getdoc(inspect.getattr_static(type(fit), name)) for name in of_class)
    assert "summary" in of_class
    assert not {"plan", "outcome", "reader", "posterior", "spreads"} & set(of_class)


@pytest.mark.parametrize("kind", [VBSVC, VBLogistic])
def test_estimators_show_parameters_and_documented_methods(kind):
    names = [name for name in public(kind()) if name not in kind().get_params()]
    assert all(inspect.getdoc(getattr(kind, name)) for name in names)
    assert not {"likelihood", "check_settings"} & set(names)
