"""What users install: a wheel and an sdist that hold everything, are small, and run where nothing else of ours is."""

import os
import subprocess
import sys
import sysconfig
import tarfile
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PLACE = "Scripts" if os.name == "nt" else "bin"
MOST_BYTES = 1_000_000

pytest.importorskip("hatchling", reason="hatchling, which builds the distributions, is not installed")


def run(*command, cwd, code=0):
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "PIP_", "COV_"))}
    done = subprocess.run(list(map(str, command)), cwd=cwd, env=clean, capture_output=True, text=True, check=False)
    assert done.returncode == code, done.stdout + done.stderr
    return done.stderr if code else done.stdout


def built(root, target, into):
    run(sys.executable, "-m", "hatchling", "build", "--target", target, "--directory", into, cwd=root)
    (found,) = into.iterdir()
    return found


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    return built(ROOT, "wheel", tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module")
def installed(wheel, tmp_path_factory):
    """An environment with the wheel; dependencies are those at hand, without what is installed there by links."""
    place = tmp_path_factory.mktemp("installed")
    venv.create(place / "env", with_pip=False)
    python = place / "env" / PLACE / "python"
    site = Path(run(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))", cwd=place).strip())
    paths = dict.fromkeys(sysconfig.get_path(kind) for kind in ("purelib", "platlib"))
    (site / "dependencies.pth").write_text("\n".join(paths), encoding="utf-8")
    run(sys.executable, "-m", "pip", "--python", python, "install", "--no-index", "--no-deps", wheel, cwd=place)
    return place


def contents(wheel):
    with zipfile.ZipFile(wheel) as archive:
        return {one.filename: one.CRC for one in archive.infolist() if not one.filename.endswith("RECORD")}


def test_the_wheel_is_small_and_holds_the_package_alone(wheel):
    names = list(contents(wheel))
    assert wheel.stat().st_size < MOST_BYTES
    assert {name.split("/")[0] for name in names} == {"vbsvm", f"{wheel.name.rsplit('-', 3)[0]}.dist-info"}
    for needed in (
        "py.typed",
        "datasets/spam.csv.gz",
        "datasets/toenail.csv",
        "report/page.css",
        "report/page.html.j2",
    ):
        assert f"vbsvm/{needed}" in names


def test_the_sdist_builds_the_same_wheel(wheel, tmp_path):
    for folder in ("sdist", "again"):
        (tmp_path / folder).mkdir()
    sdist = built(ROOT, "sdist", tmp_path / "sdist")
    with tarfile.open(sdist) as archive:
        archive.extractall(tmp_path, filter="data")
    tree = tmp_path / sdist.name.removesuffix(".tar.gz")
    parts = ("tests/test_distribution.py", "reproduction/__main__.py", "docs/architecture.md")
    for part in (*parts, "LICENSE", "CITATION.cff", "CHANGELOG.md"):
        assert (tree / part).is_file(), part
    assert contents(built(tree, "wheel", tmp_path / "again")) == contents(wheel)


def test_the_wheel_runs_where_it_is_installed(installed):
    code = (
        "import sys, vbsvm; heavy = {'numpy', 'scipy', 'pandas', 'sklearn', 'matplotlib'} & set(sys.modules);"
        "assert not heavy, heavy;"
        "from vbsvm.datasets import load_spam, load_toenail; print(vbsvm.__file__);"
        "print(len(load_spam()), len(load_toenail()));"
        "fit = vbsvm.Model('outcome ~ visit * treatment', load_toenail()).fit(); print(fit.converged)"
    )
    where, sizes, converged = run(installed / "env" / PLACE / "python", "-c", code, cwd=installed).splitlines()
    assert Path(where).is_relative_to(installed)
    assert sizes == "4601 1908"
    assert converged == "True"
    assert "Usage: vbsvm" in run(installed / "env" / PLACE / "vbsvm", "--help", cwd=installed)


def test_the_demonstration_runs_from_the_wheel(installed):
    shown = run(installed / "env" / PLACE / "vbsvm", "demo", cwd=installed)
    assert "VBSVC()" in shown


def test_the_papers_experiments_are_not_in_the_wheel_and_the_command_says_where_they_are(installed):
    command = installed / "env" / PLACE / "vbsvm"
    told = run(command, "reproduce", "toenail", "--quick", cwd=installed, code=1)
    assert "Clone the repository" in told
    assert "python -m reproduction toenail --quick" in told
