"""Ctrl-C at random moments of everything that takes long, and what is left behind by it."""

import copy
import os
import signal
import sys
import tempfile
import threading
import time
import warnings
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd

from asked_at_once import alike, plain
from vbsvm import VBSVC, Files, Gibbs, LaplaceZero, Model, VBLogistic, cross_validate
from vbsvm.base import arrays

# A run that has not ended so long after a signal hangs: a busy processor may take seconds for one operation.
HANG = 60.0


def table(n, p, n_classes=2, missing=0.0, seed=1):
    """Predictors and labels."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, p))
    y = np.digitize(X @ np.linspace(1.0, -0.5, p) + rng.logistic(size=n), np.arange(n_classes - 1.0))
    X[rng.random(X.shape) < missing] = np.nan
    return X, y


def frame(n, n_groups):
    """A table with a grouping factor."""
    X, y = table(n, 3)
    g = np.random.default_rng(2).integers(0, n_groups, n)
    return pd.DataFrame(X, columns=list("abc")).assign(y=y, g=g)


def _estimator(make, data):
    """Fit an estimator that has been fitted before."""
    estimator = make()
    quiet(lambda: estimator.fit(data[0][::2], data[1][::2]))

    def after():
        """None where what had been reached was stored, as is documented."""
        reached = any(fit.interrupted for fit in estimator.fit_)
        return None if reached else estimator.coef_

    return lambda folder: estimator.fit(*data).coef_, after


def _fit(fit, ask):
    """Ask a fresh copy of a fit, and afterwards the same one again."""
    held = []

    def asked(folder):
        found = fit()
        if getattr(found, "interrupted", False):  # a Model gives back what it has reached
            raise KeyboardInterrupt
        held[:] = [found]
        return ask(found, folder)

    return asked, lambda: ask(held[0], None) if held else None


def _files(n, ask):
    """Read files."""
    data = frame(n, 20)
    return lambda folder: ask(_written(data, folder)), lambda: None


def _written(data, folder):
    path = folder / "rows.csv"
    if not path.exists():
        data.to_csv(path, index=False)
    return path


def _predicted(path):
    """Predict files; the numbers that were written."""
    model = quiet(lambda: VBSVC().fit(pd.DataFrame(table(400, 3)[0], columns=list("abc")), table(400, 3)[1]))
    model.predict_files(path, path.with_name("predictions.csv"), proba=True, overwrite=True)
    return pd.read_csv(path.with_name("predictions.csv")).to_numpy(float)


def _of_formula(formula, data, **settings):
    """What a fit has reached is given back with a warning, as is documented; then it is interrupted as a whole."""
    fit = Model(formula, data).fit(**settings)
    if fit.interrupted:
        raise KeyboardInterrupt
    return fit.coef


def _streamed():
    """A second batch, which is learned as a whole or not at all."""
    (X, y), model = table(20_000, 20, n_classes=3), VBSVC()
    quiet(lambda: model.partial_fit(X[:5_000], y[:5_000], classes=[0, 1, 2]))
    held = [copy.deepcopy(model)]

    def learn(folder):
        held[:] = [copy.deepcopy(model)]
        return held[0].partial_fit(X[5_000:], y[5_000:]).coef_

    return learn, lambda: held[0].coef_


def _summary(covariance):
    return lambda fit, _: fit.summary(covariance=covariance)


def _report(fit, folder):
    with tempfile.TemporaryDirectory() as other:
        return len(Path(fit.report((folder or Path(other)) / "page.html")).read_text(encoding="utf-8")) > 10_000


def _checkpointed(folder):
    chains = Gibbs(draws=400, tune=100, chains=2, checkpoint=folder / "run.chains")
    return VBSVC(inference=chains, random_state=1).fit(*table(300, 3)).coef_


SMALL = Gibbs(draws=300, tune=100, chains=2)
# What is done, as a function of a folder; and what is asked afterwards, which must be as before or as in the end.
PHASES = {
    "climb": lambda: _estimator(VBSVC, table(40_000, 30)),
    "wide": lambda: _estimator(VBSVC, table(120, 600)),
    "logistic": lambda: _estimator(VBLogistic, table(40_000, 30)),
    "classes": lambda: _estimator(VBSVC, table(20_000, 20, n_classes=4)),
    "logistic classes": lambda: _estimator(VBLogistic, table(4_000, 20, n_classes=4)),
    "gates": lambda: _estimator(lambda: VBSVC(prior=LaplaceZero()), table(4_000, 30)),
    "missing": lambda: _estimator(VBSVC, table(2_000, 6, missing=0.1)),
    "groups": lambda: (lambda _: _of_formula("y ~ a + (1 + a | g)", frame(3_000, 100)), lambda: None),
    "integrated groups": lambda: _estimator(
        lambda: VBLogistic(group="g"), (frame(6_000, 300)[["a", "b", "g"]], frame(6_000, 300)["y"])
    ),
    "stream": _streamed,
    "sensitivity": lambda: (
        lambda _: Model("y ~ a + b", frame(2_000, 9).mask(frame(2_000, 9) < -1.5)).sensitivity([-0.5, 0.5]),
        lambda: None,
    ),
    "Gibbs": lambda: _estimator(lambda: VBSVC(inference=SMALL, random_state=1), table(500, 4)),
    "Gibbs, logistic": lambda: _estimator(lambda: VBLogistic(inference=SMALL, random_state=1), table(500, 4)),
    "Gibbs, checkpoint": lambda: (_checkpointed, lambda: None),
    "robust": lambda: _fit(lambda: VBSVC().fit(*table(20_000, 30)).fit_[0], _summary("robust")),
    "posterior": lambda: _fit(lambda: VBSVC().fit(*table(20_000, 30)).fit_[0], _summary("posterior")),
    "effects": lambda: _fit(lambda: Model("y ~ a + s(b) + c", frame(3_000, 9)).fit(), lambda fit, _: fit.effects("b")),
    "left out": lambda: _fit(
        lambda: VBSVC().fit(*table(5_000, 20)), lambda model, _: model.left_out_predictions().log_probability
    ),
    "report": lambda: _fit(lambda: Model("y ~ a + s(b) + c", frame(500, 9)).fit(), _report),
    "cross-validation": lambda: _fit(
        lambda: Model("y ~ a + (1 | g)", frame(1_000, 30)), lambda model, _: cross_validate(model).predictions
    ),
    "files": lambda: _files(
        30_000, lambda path: VBSVC().fit_files(Files(path, cache=path.with_name("cache")), "y").coef_
    ),
    "files, formula": lambda: _files(
        10_000, lambda path: _of_formula("y ~ a + s(b) + (1 | g)", Files(path, cache=path.with_name("cache")))
    ),
    "predict_files": lambda: _files(30_000, _predicted),
}
# What may be in the folder afterwards: whole files, and encoded rows from which a fit resumes.
ALLOWED = {"rows.csv", "page.html", "predictions.csv", "cache", "run.chains"}


def quiet(call):
    """Without the warnings of short runs."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return call()


@contextmanager
def signalled(after):
    """Send this process SIGINT after so many seconds, and give when that was done."""
    sent = []

    def send():
        sent.append(time.perf_counter())
        os.kill(os.getpid(), signal.SIGINT)

    timer = threading.Timer(after, send)
    timer.start()
    try:
        yield sent
    finally:
        timer.cancel()
        timer.join()
        time.sleep(0)


def interrupted(phase, repeats, seed=0):
    """Interrupt a phase at random moments.

    Give how many signals ended it, the longest time to its end, all that was found wrong, and how many signals it
    outlived: they came in its last moments, or Python dropped the exception, as in callbacks of weak references.
    """
    rng, wrong, arrived, longest, outlived = np.random.default_rng(seed), [], 0, 0.0, 0
    do, after = PHASES[phase]()
    with tempfile.TemporaryDirectory() as name:
        begin = time.perf_counter()
        expected = plain(quiet(lambda: do(Path(name))))
        duration = time.perf_counter() - begin
    for _ in range(repeats):
        do, after = PHASES[phase]()
        before, filters, n_threads = plain(after()), list(warnings.filters), threading.active_count()
        with tempfile.TemporaryDirectory() as name:
            folder, found, caught = Path(name), None, False
            if "files" in phase:
                _written(frame(30_000 if "formula" not in phase else 10_000, 20), folder)
            try:
                with signalled(duration * rng.uniform(0.0, 1.0)) as sent:
                    with warnings.catch_warnings():
                        warnings.simplefilter("ignore")
                        try:
                            found = plain(do(folder))
                        except KeyboardInterrupt:
                            caught = True
                        except Exception as error:  # another library has lost the signal
                            caught = True
                            wrong.append(f"{type(error).__name__}: {error}")
                    ended = time.perf_counter()
            except KeyboardInterrupt:  # it came too late
                continue
            if sent and caught:
                arrived, longest = arrived + 1, max(longest, ended - sent[0])
            elif sent:
                outlived += 1
                if not alike(found, expected):
                    wrong.append("another result, without KeyboardInterrupt")
            left = {one.name for one in folder.rglob("*")} - ALLOWED
            wrong += [f"left {one}" for one in left if one.endswith(".part")]
            wrong += [f"left {one.name}" for one in folder.iterdir() if one.name not in ALLOWED]
            if arrays._limit._inside:
                wrong.append("BLAS is held to one thread")
                arrays._limit._inside = 0
            if warnings.filters != filters:
                wrong.append("warning filters")
            if threading.active_count() > n_threads + arrays._limit._threads:
                wrong.append("threads")
            now = quiet(after)
            if caught and now is not None and not any(alike(plain(now), one) for one in (expected, before)):
                wrong.append("neither the result before nor the one after")
            again = plain(quiet(partial(do, folder)))  # a climb in files goes on from where it was, by other steps
            if not (np.allclose(again, expected, rtol=1e-3, atol=1e-4) if "files" in phase else alike(again, expected)):
                wrong.append("another result the next time")
    return arrived, longest, wrong, outlived


def main():
    """Print a table."""
    signal.signal(signal.SIGINT, signal.default_int_handler)  # it is ignored in the background of a shell
    repeats, names = int(sys.argv[1]), sys.argv[2:] or list(PHASES)
    for name in names:
        arrived, longest, wrong, outlived = interrupted(name, repeats)
        row = name, arrived, outlived, f"{longest:.2f}", len(wrong), ", ".join(sorted(set(wrong)))
        sys.stdout.write("| " + " | ".join(map(str, row)) + " |\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
