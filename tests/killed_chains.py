"""Samplers of every kind of model that are killed again and again, and the draws to which their checkpoint leads."""

import subprocess
import sys
import time
from pathlib import Path

import numpy as np

from short_chains import python

# It says when a checkpoint has been written, and saves its draws at the end.
SCRIPT = """
import sys, warnings
import numpy as np
import pandas as pd
from vbsvm import VBSVC, Gibbs, LaplaceZero, Model, VBLogistic
from vbsvm.inference import chains
warnings.simplefilter("ignore")
kind, path, elsewhere = sys.argv[1:]
chains.WORTH_A_PROCESS = 0.0 if elsewhere == "elsewhere" else np.inf
chains.cpu_count, chains.SECONDS_BETWEEN, chains.WRITES_BETWEEN = lambda: 2, 0.0, 0.0
right = chains.write_checkpoint
def told(*arguments):
    right(*arguments)
    print("written", flush=True)
chains.write_checkpoint = told
rng = np.random.default_rng(0)
n = 300
X = rng.normal(size=(n, 3))
y = np.where(X[:, 0] + rng.logistic(size=n) > 0, 1, 0)
three = np.digitize(X[:, 0] + rng.logistic(size=n), [-0.5, 0.5])
g = rng.integers(0, 15, n)
holes = np.where(rng.random(X.shape) < 0.15, np.nan, X)
frame = pd.DataFrame(X, columns=list("abc")).assign(y=y, g=g)
level = pd.Series(rng.choice(list("uvw"), n)).mask(rng.random(n) < 0.1)
gibbs = Gibbs(draws=300, tune=100, chains=2, checkpoint=path)
grouped = frame[["a", "b", "g"]]
own = {"inference": gibbs, "random_state": 0}
def of(formula, data=frame, **settings):
    return [Model(formula, data, **settings).fit(gibbs, random_state=0)]
fits = {
    "svm": lambda: VBSVC(**own).fit(X, y).fit_,
    "logistic": lambda: VBLogistic(**own).fit(X, y).fit_,
    "groups": lambda: VBSVC(group="g", **own).fit(grouped, y).fit_,
    "logistic, groups": lambda: VBLogistic(group="g", **own).fit(grouped, y).fit_,
    "slopes": lambda: of("y ~ a + (1 + a | g)", likelihood="logistic"),
    "missing": lambda: VBSVC(**own).fit(holes, y).fit_,
    "logistic, missing": lambda: VBLogistic(**own).fit(holes, y).fit_,
    "missing, groups": lambda: VBLogistic(group="g", **own).fit(grouped.assign(a=holes[:, 0]), y).fit_,
    "missing categories": lambda: of("y ~ a + h", frame.assign(h=level)),
    "indicators": lambda: VBSVC(prior=LaplaceZero(), **own).fit(X, y).fit_,
    "classes": lambda: VBSVC(**own).fit(X, three).fit_,
}[kind]()
numbers = [np.ravel(one) for fit in fits for one in (fit.outcome.coefficients, *fit.outcome.scales)]
np.save(path + ".npy", np.concatenate(numbers))
"""
KINDS = ("svm", "logistic", "groups", "logistic, groups", "slopes", "missing", "logistic, missing", "missing, groups")
KINDS = (*KINDS, "missing categories", "indicators", "classes")


def _run(kind, path, elsewhere):
    return python(SCRIPT, kind, str(path), elsewhere, folder=path.parent, stdout=subprocess.PIPE)


def _drawn(kind, path, elsewhere):
    run = _run(kind, path, elsewhere)
    run.communicate()
    assert run.returncode == 0
    return np.load(f"{path}.npy")


def killed(kind, folder, n_kills, elsewhere="here", seed=0):
    """Kill a run after some of its checkpoints, so many times or until it ends, then let it end.

    Give the number of kills, and whether its draws are the same to the bit as those of a run that nobody killed.
    """
    rng, kills, path = np.random.default_rng(seed), 0, folder / "killed.chains"
    for _ in range(n_kills):
        run = _run(kind, path, elsewhere)
        for _ in range(1 + rng.integers(0, 6)):
            run.stdout.readline()
        time.sleep(rng.uniform(0.0, 0.03))
        kills += run.poll() is None
        run.kill()
        run.communicate()
    resumed = _drawn(kind, path, elsewhere)
    same = np.array_equal(resumed, _drawn(kind, folder / "fresh.chains", "here"))
    left = sorted(one.name for one in folder.iterdir() if one.suffix != ".npy")
    for one in folder.iterdir():
        one.unlink()
    return kills, same, left


def main():
    """Print a table."""
    import tempfile

    for elsewhere in ("here", "elsewhere"):
        for kind in KINDS:
            with tempfile.TemporaryDirectory() as folder:
                kills, same, left = killed(kind, Path(folder), int(sys.argv[1]), elsewhere)
            sys.stdout.write(f"| {kind}, {elsewhere} | {kills} | {same} | {left} |\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main()
