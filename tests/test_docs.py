"""What the documentation shows runs as it stands; tutorials and examples are run by the build of the site."""

import doctest
import re
import subprocess
import sys
from pathlib import Path

import pytest

from vbsvm.api import svc

ROOT = Path(__file__).parent.parent
PAGES = ["README.md", *(f"docs/{page.name}" for page in sorted((ROOT / "docs").glob("*.md")))]


def prior_blocks(page):
    """Blocks of Python on a page, without the indent that they have in a list."""
    found = re.findall(r"^( *)```python\n(.*?)```", (ROOT / page).read_text(), flags=re.DOTALL | re.MULTILINE)
    return [re.sub(f"(?m)^{indent}", "", block) for indent, block in found]


WITH_CODE = [page for page in PAGES if prior_blocks(page)]
LET_PASS = "import warnings, vbsvm; warnings.simplefilter('ignore', vbsvm.ReliabilityWarning)"


@pytest.mark.parametrize("page", WITH_CODE)
def test_code_on_the_page_runs(page, tmp_path):
    """A page may show what is warned of as unreliable, such as a selection among correlated predictors."""
    for block in prior_blocks(page):
        command = [sys.executable, "-W", "error", "-c", f"{LET_PASS}\n{block}"]
        subprocess.run(command, check=True, capture_output=True, cwd=tmp_path)


MOVING = [page for page in PAGES if page.startswith("docs/from-")]


def shown_output(page):
    """Blocks of Python on a page that are followed by their output, and these outputs."""
    return re.findall(r"^```python\n(.*?)```\n\n```text\n(.*?)```", (ROOT / page).read_text(), re.DOTALL | re.MULTILINE)


def same(shown, printed):
    """Whether two words are equal, or numbers that differ in the last digit at most."""
    try:
        return float(shown) == pytest.approx(float(printed), rel=0.02, abs=0.002)
    except ValueError:
        return shown == printed


@pytest.mark.parametrize("page", MOVING)
def test_pages_on_moving_compare_and_show_what_their_code_prints(page, tmp_path):
    text = (ROOT / page).read_text()
    assert len(text.splitlines()) <= 150
    assert re.search(r"^\| there \| here \|$", text, re.MULTILINE)
    assert shown_output(page)
    for block, shown in shown_output(page):
        command = [sys.executable, "-W", "error", "-c", f"{LET_PASS}\n{block}"]
        printed = subprocess.run(command, check=True, capture_output=True, text=True, cwd=tmp_path).stdout.split()
        assert [word for word, other in zip(shown.split(), printed, strict=True) if not same(word, other)] == []


def test_another_output_is_seen():
    assert same("0.161", "0.161")
    assert same("-0.336", "-0.335")
    assert not same("0.161", "0.171")
    assert not same("visit", "treatment")
    assert len(MOVING) == 4


def test_pages_have_code():
    assert {"README.md", "docs/index.md", "docs/formulas.md"} <= set(WITH_CODE)
    assert len(WITH_CODE) > 15


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#]+)[^)]*\)", (ROOT / page).read_text()):
        assert target.startswith("http") or ((ROOT / page).parent / target).exists(), target


def test_the_demo_runs_shows_the_comparison_and_writes_a_report(tmp_path):
    command = [sys.executable, "-W", "error", "-m", "vbsvm", "demo", "--report", tmp_path / "page.html"]
    shown = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    assert re.search(r"VBSVC\(\) +0\.9\d\d", shown)
    assert "Standard deviations and intervals are robust" in " ".join(shown.split())
    assert shown.rstrip().endswith(str(tmp_path / "page.html"))
    assert "Breast cancer: malignant or benign</h1>" in (tmp_path / "page.html").read_text(encoding="utf-8")


def test_an_unknown_command_is_refused_in_words():
    done = subprocess.run([sys.executable, "-m", "vbsvm", "dance"], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "No such command 'dance'" in done.stderr
    done = subprocess.run([sys.executable, "-m", "vbsvm", "fti"], capture_output=True, text=True, check=False)
    assert "No such command 'fti'. Did you mean 'fit'?" in done.stderr


def test_docstring_examples():
    assert doctest.testmod(svc).attempted > 6
    assert doctest.testmod(svc).failed == 0
