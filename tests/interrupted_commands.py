"""Ctrl-C at random moments of the commands: how they end, what they say, and what they leave."""

import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from interrupted import frame
from short_chains import SOURCE

COMMANDS = {
    "fit": ("fit", "rows.csv", "--formula", "y ~ a + s(b) + (1 | g)", "--out", "new.vbsvm"),
    "fit, Gibbs": ("fit", "rows.csv", "--target", "y", "--gibbs", "--draws", "2000", "--out", "new.vbsvm"),
    "fit, larger than memory": (
        *("fit", "rows.csv", "--target", "y", "--memory-limit", "1GB", "--cache", "cache", "--out", "new.vbsvm"),
    ),
    "predict": ("predict", "model.vbsvm", "rows.csv", "--proba", "--out", "predictions.csv"),
    "report": ("report", "model.vbsvm", "--out", "page.html"),
}
WHOLE = {"rows.csv", "model.vbsvm", "cache"}


def start(*arguments, folder):
    """A command in a process of its own, in which Ctrl-C is not ignored."""
    environment = {**os.environ, "PYTHONPATH": str(SOURCE)}
    options = {"cwd": folder, "env": environment, "text": True, "stdout": -1, "stderr": -1}
    begin = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); import vbsvm.cli"
    script = f"{begin}; print('begun', flush=True); vbsvm.cli.main(prog_name='vbsvm')"
    return subprocess.Popen([sys.executable, "-B", "-c", script, *arguments], **options)


def prepared(folder, n=8_000):
    """Rows, and a model of them."""
    frame(n, 20).to_csv(folder / "rows.csv", index=False)
    run = start("fit", "rows.csv", "--formula", "y ~ a + s(b) + c", "--out", "model.vbsvm", folder=folder)
    assert run.wait() == 0, run.communicate()


def interrupted(name, folder, repeats, seed=0):
    """How many signals arrived, the longest time until that was said, and what was wrong."""
    rng, arrived, longest, wrong = np.random.default_rng(seed), 0, 0.0, []
    duration, code, _ = _ended(name, folder, None)
    wrong += [] if code == 0 else [f"exit code {code} without Ctrl-C"]
    for _ in range(repeats):
        seconds, code, error = _ended(name, folder, rng.uniform(0.0, duration))
        left = {one.name for one in folder.iterdir()} - WHOLE
        if code == 0 or "Wrote" in error:  # it came too late
            continue
        arrived, longest = arrived + 1, max(longest, seconds)
        wrong += [] if code == 130 else [f"exit code {code}"]
        wrong += [] if "Interrupted: nothing was written." in error else [f"says {error.strip()[-60:]}"]
        wrong += [f"left {one}" for one in left]
    return arrived, longest, wrong


def _ended(name, folder, after):
    for one in folder.iterdir():
        if one.name not in WHOLE:
            one.unlink()
    run = start(*COMMANDS[name], folder=folder)
    run.stdout.readline()
    begin = time.perf_counter()
    if after is not None:
        time.sleep(after)
        begin = time.perf_counter()
        run.send_signal(signal.SIGINT)
    said = ""
    for line in run.stderr:
        said += line
        if "Interrupted" in line or "Wrote" in line:
            break
    seconds = time.perf_counter() - begin  # Python then takes its time to unload what it has imported
    return seconds, run.wait(), said + run.communicate()[1]


def main():
    """Print a table."""
    with tempfile.TemporaryDirectory() as folder:
        prepared(Path(folder))
        for name in sys.argv[2:] or COMMANDS:
            arrived, longest, wrong = interrupted(name, Path(folder), int(sys.argv[1]))
            row = name, arrived, f"{longest:.2f}", len(wrong), ", ".join(sorted(set(wrong)))
            sys.stdout.write("| " + " | ".join(map(str, row)) + " |\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main()
