"""Fitted models of every kind, and all that they answer, for tests of files."""

import warnings

import numpy as np
import pandas as pd

from vbsvm import (
    VBSVC,
    Beta,
    Covariance,
    Fit,
    GaussianImputation,
    Gibbs,
    InverseWishart,
    Joint,
    LaplaceZero,
    Model,
    Normal,
    NotAtRandom,
    Ridge,
    Shift,
    Variational,
)

SHORT = Gibbs(draws=30, tune=10, chains=2)


def table(n=120):
    """Numbers, text, categories, booleans, two kinds of groups, and an outcome that follows some of them."""
    rng = np.random.default_rng(7)
    frame = pd.DataFrame(
        {
            "a": rng.normal(size=n) * 3 + 10,
            "b": rng.gamma(2.0, size=n),
            "k": rng.integers(1, 5, size=n),
            "flag": rng.random(n) < 0.4,
            "h": rng.choice(["low", "middle", "high"], size=n),
            "c": pd.Categorical(rng.choice([3, 1, 2], size=n), categories=[3, 1, 2]),
            "odd name*": rng.normal(size=n),
            "g": rng.integers(0, 9, size=n),
            "w": rng.choice(["Köln", "Aachen", "Bonn"], size=n),
        }
    )
    score = (frame["a"] - 10) / 2 + np.sin(2 * frame["b"]) + (frame["h"] == "low") + rng.normal(size=n)
    return frame.assign(y=np.where(score > 0.5, "yes", "no"), three=np.digitize(score, [-1.0, 1.0]))


def incomplete(frame, *columns):
    """The frame without a fifth of the values of these columns."""
    frame, rng = frame.copy(), np.random.default_rng(8)
    for name in columns:
        lost = rng.random(len(frame)) < 0.2
        frame[name] = frame[name].mask(lost)
    return frame


NUMBERS = ["a", "b", "odd name*"]


def _classifier(data, y="y", columns=NUMBERS, **settings):
    return VBSVC(**settings).fit(data[columns], data[y]), data[columns]


def _model(formula, data=None, inference=None, **settings):
    data = table() if data is None else data
    return Model(formula, data, **{"likelihood": "hinge", **settings}).fit(inference, random_state=0), data


def _wide(**settings):
    X = np.random.default_rng(1).normal(size=(20, 60))
    return VBSVC(**settings).fit(X, X[:, 0] + X[:, 1] > 0), X


def _weighted():
    data = table()
    weights = np.arange(len(data)) % 3
    clf = VBSVC(Normal(0.5), standardize=False, fit_intercept=False, class_weight={"no": 1.0, "yes": 2.5})
    return clf.fit(data[["a", "b"]].to_numpy(np.float32), data["y"], sample_weight=weights), data[["a", "b"]].to_numpy()


MODELS = {
    "classes": lambda: _classifier(table(), "three"),
    "labels that are booleans": lambda: _classifier(table(), "flag"),
    "labels that are floats": lambda: _classifier(table().assign(y=lambda d: np.where(d.y == "yes", 2.0, -1.0))),
    "weights": _weighted,
    "groups by number": lambda: _classifier(table(), columns=[*NUMBERS, "g"], group="g"),
    "groups by name and classes": lambda: _classifier(table(), "three", [*NUMBERS, "w"], group="w"),
    "gates": lambda: _classifier(table(), prior=LaplaceZero(rho=Beta(1, 2), restarts=2)),
    "shared gates": lambda: _classifier(table(), prior=LaplaceZero(rho=[0.3, 0.5], groups=[["a", "b"]])),
    "joint gates": lambda: _classifier(table(), prior=LaplaceZero(rho=0.3, gates=Joint())),
    "wide": _wide,
    "wide with gates": lambda: _wide(prior=LaplaceZero(rho=0.05)),
    "missing": lambda: _classifier(incomplete(table(), "a", "b")),
    "missing, jointly": lambda: _classifier(incomplete(table(), "a"), imputation=GaussianImputation(joint=True)),
    "missing, as in the paper": lambda: _classifier(
        incomplete(table(), "a", "b"), imputation=GaussianImputation(labels="likelihood")
    ),
    "missing, without labels": lambda: _classifier(
        incomplete(table(), "a"), imputation=GaussianImputation(labels="none")
    ),
    "missing not at random": lambda: _classifier(
        incomplete(table(), "a"), imputation=GaussianImputation(mechanism=NotAtRandom(["a"]))
    ),
    "missing and shifted": lambda: _classifier(
        incomplete(table(), "a"), imputation=GaussianImputation(mechanism=Shift({"a": 0.5}))
    ),
    "draws": lambda: _classifier(table(), inference=SHORT, random_state=3),
    "draws of gates": lambda: _classifier(table(), inference=SHORT, prior=LaplaceZero(rho=0.3), random_state=3),
    "draws of what is missing": lambda: _classifier(incomplete(table(), "a"), inference=SHORT, random_state=3),
    "draws of groups": lambda: _model("y ~ a + (a | g)", inference=SHORT),
    "plain formula": lambda: _model("y ~ a + b"),
    "a logistic formula": lambda: _model("y ~ a + b + (1 | g)", likelihood="logistic"),
    "an outcome of numbers": lambda: _model("three ~ a", positive=2),
    "an outcome of booleans": lambda: _model("flag ~ a + h"),
    "categories and interactions": lambda: _model("y ~ a * h + C(k):b + c + flag - 1"),
    "contrasts": lambda: _model("y ~ C(h, contr.sum) + C(k, contr.helmert) + C(h, contr.treatment('low')):a"),
    "transforms": lambda: _model(
        "y ~ poly(a, 3) + bs(b, df=5) + scale(k) + log1p(b) + I(a > 10) + cr(`odd name*`, df=4)"
    ),
    "a bounded transform of two columns": lambda: _model("y ~ bs(I(a - b), df=5) + I(~flag)"),
    "all columns": lambda: _model("y ~ . - a", table().drop(columns="three")),
    "splines": lambda: _model("y ~ s(a) + s(log(b), k=7) + h"),
    "slopes": lambda: _model("y ~ a + (a | g) + (1 | w)", priors={"(1 | w)": Ridge(2, 1), "(a | g)": Covariance()}),
    "separate slopes": lambda: _model("y ~ a + (a || g) + (0 + b | w/g)"),
    "wishart": lambda: _model("y ~ a + (a + b | g)", priors={"(a + b | g)": InverseWishart()}),
    "gates of terms": lambda: _model("y ~ a + h + b", priors={"fixed": LaplaceZero(rho=0.4)}),
    "missing in a formula": lambda: _model(
        "y ~ a * h + b:flag + s(`odd name*`) + (a | g)", incomplete(table(), "a", "b")
    ),
    "missing categories": lambda: _model("y ~ a + h", incomplete(table(), "a", "h")),
    "draws of missing categories": lambda: _model("y ~ a + h", incomplete(table(), "h"), SHORT),
    "stopped early": lambda: _classifier(table(), inference=Variational(max_iter=3)),
}


def made(kind):
    """A fitted model and data for it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return MODELS[kind]()


def answers(model, data):
    """Everything that a model says, by name."""
    found = {"predict": model.predict(data), "probabilities": model.predict_proba(data), "summary": model.summary()}
    fits = [model] if isinstance(model, Fit) else model.fit_
    if isinstance(model, Fit):
        found["mean"], found["sd"] = model.decision_function(data, return_std=True)
        found["text"] = str(model)
    else:
        found["scores"], found["parameters"] = model.decision_function(data), repr(model.get_params())
        found["learned"] = np.array([*model.classes_, model.n_iter_, model.converged_], dtype=object)
        found["names"] = getattr(model, "feature_names_in_", np.empty(0))
    for k, fit in enumerate(fits):
        found[f"{k} coefficients"], found[f"{k} covariance"] = fit.coef, fit.coef_cov
        found[f"{k} classes"], found[f"{k} components"] = fit.classes, fit.variance_components()
        found[f"{k} missing"] = fit.missing_summary()
        if fit.plan.factors:
            found[f"{k} effects"] = fit.random_effects()
        if hasattr(fit.outcome, "bounds"):
            found[f"{k} bounds"] = fit.bounds
        else:
            posterior = fit.to_arviz().posterior
            found |= {f"{k} draws of {name}": posterior[name].to_numpy() for name in posterior}
    if not fits[0].reader or not fits[0].reader.categories.names:
        found["imputed"], found["deviations"] = model.impute(data)
    return found


def require_same(found, expected, rtol=0.0):
    """Both are equal bit for bit, dtypes and all; or up to rounding."""
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        if isinstance(value, pd.DataFrame):
            pd.testing.assert_frame_equal(found[name], value, check_exact=not rtol, rtol=rtol, obj=name)
            assert rtol or repr(found[name].attrs) == repr(value.attrs), name
        elif isinstance(value, str):
            assert found[name] == value, name
        else:
            assert found[name].dtype == value.dtype, name
            if rtol and value.dtype.kind == "f":
                np.testing.assert_allclose(found[name], value, rtol, err_msg=name)
            else:
                np.testing.assert_array_equal(found[name], value, err_msg=name)
