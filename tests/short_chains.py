"""Short chains on small tables, and scripts in processes of their own, for tests of sampling under faults."""

import os
import re
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
from sklearn.exceptions import ConvergenceWarning

import vbsvm
from vbsvm import VBSVC, Gibbs

SOURCE = Path(vbsvm.__file__).parent.parent
SHORT = Gibbs(draws=40, tune=40, chains=2)


def table(n=200, missing=0.0):
    """Inputs, of which some may be missing, and labels that follow them."""
    rng = np.random.default_rng(3)
    X = rng.normal(size=(n, 3))
    y = np.where(X @ [1.0, -0.5, 0.0] + 1.5 * rng.logistic(size=n) > 0, 1, 0)
    X[rng.random(X.shape) < missing] = np.nan
    return X, y


def quiet(call):
    """Few draws mix badly, and it is said; here that is no matter."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return call()


def fitted(X, y, inference=SHORT, **settings):
    """A sampled fit."""
    return quiet(lambda: VBSVC(inference=inference, random_state=5, **settings).fit(X, y))


def saved(model, path):
    """The bytes of a saved fit."""
    model.save(path)
    return path.read_bytes()


def python(script, *arguments, folder, tests=False, **options):
    """A script in a process of its own, whose temporary files are in this folder; ``tests`` can be imported.

    It writes no bytecode: where files may not grow, that would be cut short.
    """
    path = os.pathsep.join([str(SOURCE), *([str(Path(__file__).parent)] if tests else [])])
    environment = {**os.environ, "PYTHONPATH": path, "TMPDIR": str(folder)}
    return subprocess.Popen([sys.executable, "-B", "-c", script, *arguments], env=environment, text=True, **options)


def shared_memory(pid):
    """Names of shared memory that tell this process."""
    place = Path("/dev/shm")
    found = place.iterdir() if place.is_dir() else ()
    return [one.name for one in found if str(pid) in re.split(r"\W|_", one.name)]
