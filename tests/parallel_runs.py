"""Fits and predictions in processes, threads and loops of others: what each gives, and what it leaves behind."""

import os
import subprocess
import sys
import tempfile
import textwrap
import time
from pathlib import Path

from short_chains import SOURCE, shared_memory

# Seconds after which a process counts as left behind: helpers of joblib end a moment after what has started them.
GRACE = 10.0
BEGIN = """
import asyncio, multiprocessing, threading, time, warnings
import numpy as np
import pandas as pd
warnings.simplefilter("ignore")
from vbsvm import VBSVC, Gibbs, Model, Ridge, VBLogistic
rng = np.random.default_rng(1)
X = rng.normal(size=(6_000, 30))
y = np.where(X[:, 0] + rng.logistic(size=6_000) > 0, 1, 0)
frame = pd.DataFrame(X[:300, :2], columns=["a", "b"]).assign(y=y[:300], g=rng.integers(0, 9, 300))

def fitted(k=0):
    svm = VBSVC().fit(X, y)
    mixed = Model("y ~ a + (1 | g)", frame).fit()
    drawn = VBSVC(inference=Gibbs(draws=40, tune=20, chains=2), random_state=1).fit(X[:200], y[:200])
    return [round(float(np.sum(one)), 6) for one in (svm.coef_, errors(svm.fit_[0]), mixed.coef, drawn.coef_)]

def errors(fit):
    return fit.summary().select_dtypes("number").to_numpy()[:, 1].sum()

def predicted(model):
    return round(float(model.predict_proba(X[:500]).sum()), 6)

def main():
"""
SCRIPTS = {
    "alone": "print(fitted())",
    "fork": """
        fitted()
        with multiprocessing.get_context("fork").Pool(2) as pool:
            one, two = pool.map(fitted, range(2))
        assert one == two
        print(one)
    """,
    "fork beside threads that fit": """
        stop = threading.Event()
        def work():
            while not stop.is_set():
                VBSVC().fit(X[:2_000], y[:2_000]).fit_[0].summary()
                Model("y ~ a + s(b)", frame).fit()
        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        try:
            found = []
            for _ in range(8):
                with multiprocessing.get_context("fork").Pool(1) as pool:
                    found.append(pool.apply_async(fitted).get(60))
        finally:
            stop.set()
        assert all(one == found[0] for one in found)
        print(found[0])
    """,
    "fork while a fit is asked": """
        for _ in range(8):
            fit = VBSVC().fit(X, y).fit_[0]
            thread = threading.Thread(target=fit.summary)
            thread.start()
            child = multiprocessing.get_context("fork").Process(target=fit.summary)
            child.start()
            child.join(60)
            code = child.exitcode
            child.kill()
            thread.join()
            assert code == 0, "the child waits for a lock that nobody holds"
        print(fitted())
    """,
    "spawn": """
        with multiprocessing.get_context("spawn").Pool(2) as pool:
            one, two = pool.map(fitted, range(2))
        assert one == two
        print(one)
    """,
    "loky": """
        from joblib import Parallel, delayed
        one, two = Parallel(2)(delayed(fitted)(k) for k in range(2))
        assert one == two
        print(one)
    """,
    "joblib's threads": """
        from joblib import Parallel, delayed
        one, two = Parallel(2, backend="threading")(delayed(fitted)(k) for k in range(2))
        assert one == two
        print(one)
    """,
    "scikit-learn with n_jobs=2": """
        from sklearn.model_selection import GridSearchCV, cross_val_score
        data, priors = (X[:600], y[:600]), {"prior": [Ridge(), Ridge(3, 3)]}
        scores = [cross_val_score(VBSVC(), *data, n_jobs=n) for n in (1, 2)]
        assert (scores[0] == scores[1]).all()
        tables = [GridSearchCV(VBLogistic(), priors, n_jobs=n).fit(*data).cv_results_ for n in (1, 2)]
        assert (tables[0]["mean_test_score"] == tables[1]["mean_test_score"]).all()
        print(fitted())
    """,
    "asyncio.to_thread": """
        async def ask():
            model = VBSVC().fit(X, y)
            expected = predicted(model)
            calls = [asyncio.to_thread(predicted, model) for _ in range(8)]
            found = await asyncio.gather(*calls, *(asyncio.to_thread(fitted) for _ in range(8)))
            assert found[:8] == [expected] * 8
            assert all(one == found[8] for one in found[8:])
            return found[8]
        print(asyncio.run(ask()))
    """,
    "daemon thread": """
        found = []
        thread = threading.Thread(target=lambda: found.append(fitted()), daemon=True)
        thread.start()
        thread.join()
        print(found[0])
    """,
    "end while a daemon thread fits": """
        print(fitted(), flush=True)
        def work():
            while True:
                VBSVC().fit(X, y)
        threading.Thread(target=work, daemon=True).start()
        time.sleep(0.5)
    """,
}
END = """
if __name__ == "__main__":
    main()
"""


def run(name, seconds=300):
    """What a script prints, what went wrong, and what it left: processes of its session, files, shared memory."""
    with tempfile.TemporaryDirectory() as folder:
        script, temporary = Path(folder) / "script.py", Path(folder) / "temporary"
        temporary.mkdir()
        body = textwrap.indent(textwrap.dedent(SCRIPTS[name]).strip(), "    ")
        script.write_text(BEGIN + body + END)
        environment = {**os.environ, "PYTHONPATH": str(SOURCE), "TMPDIR": str(temporary)}
        options = {"env": environment, "text": True, "stdout": -1, "stderr": -1, "start_new_session": True}
        with subprocess.Popen([sys.executable, "-B", str(script)], **options) as process:
            try:
                out, error = process.communicate(timeout=seconds)
                wrong = error if process.returncode else ""
            except subprocess.TimeoutExpired:
                out, wrong = "", "it hangs"
            end = time.monotonic() + GRACE
            while (session := _session(process.pid)) and time.monotonic() < end:
                time.sleep(0.05)
            left = [f"process {pid}" for pid in session if pid != process.pid]
            for pid in session:
                os.kill(pid, 9)
        left += [str(one.relative_to(temporary)) for one in temporary.rglob("*")]
    return out.strip(), wrong, left + shared_memory(process.pid)


def _session(leader):
    """Processes of a session that have not ended."""
    found = []
    for place in Path("/proc").iterdir() if Path("/proc").is_dir() else ():
        if place.name.isdecimal():
            try:
                state, _, _, session = (place / "stat").read_text().rpartition(")")[2].split()[:4]
            except OSError:
                continue
            if int(session) == leader and state != "Z":
                found.append(int(place.name))
    return found


def main():
    """Print a table."""
    alone, *_ = run("alone")
    for name in sys.argv[1:] or SCRIPTS:
        out, wrong, left = run(name)
        row = name, out == alone, wrong.strip().rpartition("\n")[2], ", ".join(left)
        sys.stdout.write("| " + " | ".join(map(str, row)) + " |\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
