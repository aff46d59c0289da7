"""Models of every kind, questions that threads put to one of them at once, and their answers compared with one's."""

import sys
import tempfile
import threading
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.sparse import csr_array
from threadpoolctl import threadpool_info

from vbsvm import VBSVC, Gibbs, LaplaceZero, Model, VBLogistic, load

N_THREADS = 8


def table(n=600, p=5, n_classes=2, missing=0.0):
    rng = np.random.default_rng(1)
    X = rng.normal(size=(n, p))
    score = X @ np.linspace(1.0, -0.5, p) + rng.logistic(size=n)
    y = np.digitize(score, np.quantile(score, np.arange(1, n_classes) / n_classes))
    X[rng.random(X.shape) < missing] = np.nan
    return X, y


def frame(n=400):
    X, y = table(n, 3)
    rng = np.random.default_rng(2)
    return pd.DataFrame(X, columns=["a", "b", "c"]).assign(y=y, g=rng.integers(0, 12, n), h=rng.choice(list("uvw"), n))


def grouped(n=400):
    X, y = table(n, 4)
    return pd.DataFrame(X, columns=list("abcd")).assign(g=np.random.default_rng(2).integers(0, 12, n)), y


def _estimator(estimator, data):
    return estimator.fit(*data), data[0]


def _model(formula, **settings):
    data = frame()
    return Model(formula, data, **settings).fit(), data


# What gives a fresh fit, and the rows that are predicted.
KINDS = {
    "svm": lambda: _estimator(VBSVC(), table()),
    "blocks": lambda: _estimator(VBSVC(), table(30_000, 6)),
    "logistic": lambda: _estimator(VBLogistic(), table()),
    "weighted": lambda: _estimator(VBSVC(class_weight="balanced"), table()),
    "groups": lambda: _estimator(VBSVC(group="g"), grouped()),
    "integrated groups": lambda: _estimator(VBLogistic(group="g"), grouped()),
    "gates": lambda: _estimator(VBSVC(prior=LaplaceZero()), table()),
    "missing": lambda: _estimator(VBSVC(), table(300, 4, missing=0.1)),
    "classes": lambda: _estimator(VBSVC(), table(n_classes=3)),
    "logistic classes": lambda: _estimator(VBLogistic(), table(n_classes=3)),
    "sampled": lambda: _estimator(VBSVC(inference=Gibbs(draws=40, tune=40, chains=2), random_state=5), table(200, 3)),
    "sparse": lambda: _sparse(),
    "wide": lambda: _estimator(VBSVC(), table(60, 150)),
    "wide sparse": lambda: _sparse(60, 300),
    "formula": lambda: _model("y ~ scale(a) + poly(b, 2) + C(h) + s(c)"),
    "formula with groups": lambda: _model("y ~ a + s(b) + (1 + a | g)", likelihood="logistic"),
}


def _sparse(n=600, p=30):
    X, y = table(n, p)
    X[np.random.default_rng(3).random(X.shape) < 0.8] = 0.0
    return _estimator(VBSVC(), (csr_array(X), y))


def _first(rows):
    return "a" if isinstance(rows, pd.DataFrame) else "x0"


def _fits(model):
    return getattr(model, "fit_", None) or (model,)


def _saved(model):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.vbsvm"
        model.save(path)
        return [fit.summary() for fit in _fits(load(path))]


def _contents(model):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.vbsvm"
        model.save(path)
        return path.read_bytes().hex()


def _report(model):
    with tempfile.TemporaryDirectory() as folder:
        return Path(model.report(Path(folder) / "page.html")).read_text(encoding="utf-8")


def _spread(kind):
    return lambda model, rows: [fit.summary(covariance=kind) for fit in _fits(model)]


QUESTIONS = {
    "summary": _spread(None),
    "robust": _spread("robust"),
    "posterior": _spread("posterior"),
    "curvature": _spread("curvature"),
    "mean-field": _spread("mean-field"),
    "predict_proba": lambda model, rows: model.predict_proba(rows),
    "decision_function": lambda model, rows: model.decision_function(rows),
    "predictive": lambda model, rows: model.predictive(rows),
    "effects": lambda model, rows: model.effects(_first(rows)),
    "slopes": lambda model, rows: model.slopes(_first(rows)),
    "left out": lambda model, rows: model.left_out_predictions().log_probability,
    "coef_std": lambda model, rows: [fit.coef_std for fit in _fits(model)],
    "elbo": lambda model, rows: [fit.elbo for fit in _fits(model)],
    "slope": lambda model, rows: [fit.slope for fit in _fits(model)],
    "components": lambda model, rows: [fit.variance_components() for fit in _fits(model)],
    "text": lambda model, rows: [str(fit) for fit in _fits(model)],
    "saved": lambda model, rows: _saved(model),
}
REPORT = {"report": lambda model, rows: _report(model)}
# Asked alone: a file holds what has been learned before it is written.
SAVED = {"contents": lambda model, rows: _contents(model)}
ONE_BLAS_THREAD = all(one["num_threads"] == 1 for one in threadpool_info())


def plain(answer):
    """An answer as lists of texts and arrays."""
    if isinstance(answer, list | tuple):
        return [plain(one) for one in answer]
    if isinstance(answer, pd.DataFrame):
        texts = [*map(str, answer.columns), str(answer.attrs.get("note"))]
        return [*texts, answer.select_dtypes("number").to_numpy()]
    return np.asarray(answer) if isinstance(answer, float | np.ndarray) else str(answer)


def alike(one, other):
    """Whether answers are the same: to the bit where BLAS has one thread, else but for rounding."""
    if isinstance(one, list):
        return isinstance(other, list) and len(one) == len(other) and all(map(alike, one, other))
    if isinstance(one, str):
        return one == other
    if ONE_BLAS_THREAD:
        return np.array_equal(one, other, equal_nan=True)
    size = np.abs(one[np.isfinite(one)]).max(initial=1e-300)
    return np.shape(one) == np.shape(other) and np.allclose(one, other, rtol=1e-6, atol=1e-9 * size, equal_nan=True)


def answer(question, model, rows):
    """What a question gives; that it has no answer for this kind of model is one, too."""
    try:
        return plain(question(model, rows))
    except (ValueError, TypeError, AttributeError) as error:
        if "available" not in str(error) and "a sparse table" not in str(error):
            raise
        return f"{type(error).__name__}: {error}"


def at_once(calls):
    """What calls give in threads that begin together and change over often; an error in one of them is raised."""
    found, errors, begin = [None] * len(calls), [], threading.Barrier(len(calls))

    def run(k):
        try:
            begin.wait()
            found[k] = calls[k]()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(k,)) for k in range(len(calls))]
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(before)
    if errors:
        raise errors[0]
    return found


def differences(kind, questions=QUESTIONS, n_threads=N_THREADS, repeats=1):
    """Questions to which some thread of several got another answer than one thread alone, by fit that is asked."""
    names, wrong = list(questions), []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        alone = {name: answer(one, *KINDS[kind]()) for name, one in questions.items()}
        for _ in range(repeats):
            model, rows = KINDS[kind]()

            def ask(k, model=model, rows=rows):
                turned = names[k % len(names) :] + names[: k % len(names)]
                return {name: answer(questions[name], model, rows) for name in turned}

            # Half of the threads begin with the same question, the others each with another.
            found = at_once([lambda k=k, ask=ask: ask(max(0, k - n_threads // 2)) for k in range(n_threads)])
            found.append(ask(0))
            wrong.append({name for one in found for name in names if not alike(one[name], alone[name])})
    return [sorted(one) for one in wrong if one]
