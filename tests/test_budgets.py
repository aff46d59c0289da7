"""Budgets of the package's size and of the ways through it: what is measured may only fall.

``python tests/test_budgets.py`` prints what is measured beside what is allowed. Ways are measured in a process of their
own, whatever other tests have imported, cached or left to the garbage collector.
"""

import gc
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import pytest

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "src" / "vbsvm"

LINES, FILES = 38_630, 174
# McCabe's number of any function, parsers included; pyproject.toml has that of all others.
MOST_COMPLEX = 20
# Files at the top of each package.
TOPS = {
    "api": 16,
    "base": 11,
    "cli": 4,
    "datasets": 1,
    "design": 7,
    "inference": 15,
    "missing": 10,
    "model": 7,
    "plots": 7,
    "report": 7,
    "results": 20,
    "sources": 10,
    "storage": 5,
}
# Functions and modules of the package that a call crosses: 200 rows of 10 columns, and toenail under the hinge loss;
# two functions more than with the newest dependencies, as some are only called with older ones.
WAYS = {
    "VBSVC.fit": (380, 44),
    "Model": (277, 26),
    "Model.fit": (337, 41),
    "Fit.summary": (289, 38),
    "Fit.predict_proba": (241, 31),
    "sweep": (63, 16),
}


def crossed(call: Callable[[], object]) -> tuple[int, int, int, int]:
    """Functions and modules of the package that a call enters in this thread, switches of module, and depth."""
    codes: set[CodeType] = set()
    frames: list[CodeType] = []
    switches = depth = 0

    def follow(frame: FrameType, event: str, argument: Any) -> None:
        nonlocal switches, depth
        code = frame.f_code
        if not code.co_filename.startswith(str(PACKAGE)):
            return
        if event == "call":
            switches += bool(frames) and frames[-1].co_filename != code.co_filename
            codes.add(code)
            frames.append(code)
            depth = max(depth, len(frames))
        elif event == "return":
            frames.pop()

    gc.collect()
    gc.disable()
    sys.setprofile(follow)
    try:
        call()
    finally:
        sys.setprofile(None)
        gc.enable()
    return len(codes), len({code.co_filename for code in codes}), switches, depth


def measured_ways() -> dict[str, tuple[int, int, int, int]]:
    """What each of the calls crosses the second time, when imports and caches are done."""
    import numpy as np

    from models import source_of, spec_of
    from vbsvm import VBSVC, Model
    from vbsvm.base.update_mode import mean_field
    from vbsvm.datasets import load_toenail
    from vbsvm.model.sweep import sweep

    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 10))
    y = np.where(X[:, 0] + rng.normal(size=200) > 0, 1.0, -1.0)
    toenail, formula = load_toenail(), "outcome ~ treatment * time + (1 | patientID)"
    source, spec = source_of(X, y), spec_of(10)
    state = sweep(spec, spec.start(), source, mean_field)[0]

    def measured() -> dict[str, tuple[int, int, int, int]]:
        model = Model(formula, toenail, likelihood="hinge")
        fit = model.fit()
        return {
            "VBSVC.fit": crossed(lambda: VBSVC().fit(X, y)),
            "Model": crossed(lambda: Model(formula, toenail, likelihood="hinge")),
            "Model.fit": crossed(model.fit),
            "Fit.summary": crossed(fit.summary),
            "Fit.predict_proba": crossed(lambda: fit.predict_proba(toenail)),
            "sweep": crossed(lambda: sweep(spec, state, source, mean_field)),
        }

    measured()
    return measured()


def measured_size() -> dict[str, int]:
    """Lines and files of the package, and files at the top of each package in it."""
    paths = list(PACKAGE.rglob("*.py"))
    lines = sum(len(path.read_bytes().splitlines()) for path in paths)
    tops = {path.parent.name: len(list(path.parent.glob("*.py"))) for path in PACKAGE.glob("*/__init__.py")}
    return {"lines": lines, "files": len(paths), **tops}


@pytest.fixture(scope="module")
def ways() -> dict[str, list[int]]:
    paths = os.pathsep.join([str(ROOT / "src"), str(ROOT / "tests")])
    command = [sys.executable, "-W", "ignore", __file__, "--json"]
    done = subprocess.run(command, env=os.environ | {"PYTHONPATH": paths}, capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


@pytest.mark.parametrize("name", WAYS)
def test_a_call_crosses_no_more_functions_and_modules_than_allowed(ways, name):
    functions, modules = ways[name][:2]
    assert functions <= WAYS[name][0]
    assert modules <= WAYS[name][1]


def test_the_package_is_no_larger_than_allowed():
    size = measured_size()
    assert size.pop("lines") <= LINES
    assert size.pop("files") <= FILES
    assert {name: n for name, n in size.items() if n > TOPS.get(name, 0)} == {}


def test_no_function_is_too_complex():
    """Parsers too, which the linter's own limit leaves out, have a limit."""
    ruff = Path(sys.executable).with_name("ruff")
    if not ruff.exists():
        pytest.skip("ruff is not installed beside this Python")
    options = ["--isolated", "--select", "C901", "--config", f"lint.mccabe.max-complexity={MOST_COMPLEX}"]
    done = subprocess.run([ruff, "check", *options, PACKAGE], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def main() -> None:
    """Print the tables, or what the ways cross as JSON."""
    if "--json" in sys.argv:
        print(json.dumps(measured_ways()))
        return
    print(f"{'call':20}{'functions':>10}{'allowed':>9}{'modules':>9}{'allowed':>9}{'switches':>10}{'depth':>7}")
    for name, (functions, modules, switches, depth) in measured_ways().items():
        print(f"{name:20}{functions:10}{WAYS[name][0]:9}{modules:9}{WAYS[name][1]:9}{switches:10}{depth:7}")
    allowed = {"lines": LINES, "files": FILES, **TOPS}
    print(f"\n{'size':20}{'':10}{'allowed':>9}")
    for name, number in measured_size().items():
        print(f"{name:20}{number:10}{allowed.get(name, 0):9}")


if __name__ == "__main__":
    main()
