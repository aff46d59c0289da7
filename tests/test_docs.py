"""What the documentation shows runs as it stands; tutorials and examples are run by the build of the site."""

import doctest
import re
import subprocess
import sys
from pathlib import Path

import pytest

from vbsvm.api import svc

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "docs"))
import outputs  # noqa: E402

PAGES = ["README.md", *(f"docs/{page.name}" for page in sorted((ROOT / "docs").glob("*.md")))]
WITH_CODE = [page for page in PAGES if "```python" in (ROOT / page).read_text()]
NUMBER = re.compile(r"(?<![\w.])[-+]?(?:\d+\.?\d*|\.\d+)(?:e[-+]?\d+)?")


def agree(shown, printed):
    """Whether two outputs have the same words, and numbers within 2 % or two units of the last digit."""
    words = [NUMBER.sub("#", text.replace("−", "-")) for text in (shown, printed)]
    if len({re.sub(r"[\s\-─━═]+", "", text) for text in words}) > 1:
        return False
    pairs = zip(*(NUMBER.findall(text.replace("−", "-")) for text in (shown, printed)), strict=True)
    return all(abs(float(a) - float(b)) <= max(0.02 * abs(float(a)), 2.01 * last_digit(a)) for a, b in pairs)


def last_digit(number):
    """One unit of the last digit that is shown."""
    digits, _, exponent = number.partition("e")
    return 10.0 ** (int(exponent or 0) - len(digits.partition(".")[2]))


def test_agreement_allows_another_processor_and_nothing_else():
    shown = "mean  0.412  -3.1e-05  12 iterations\n------"
    assert agree(shown, "mean 0.414 -3.2e-05   11 iterations")
    assert not agree(shown, "mean  0.430  -3.1e-05  12 iterations")
    assert not agree(shown, "mean  0.412  3.1e-05  12 iterations")
    assert not agree(shown, "mean  0.412  -3.1e-05  12 rounds")
    assert not agree(shown, "mean  0.412  -3.1e-05")


@pytest.mark.parametrize("page", WITH_CODE)
def test_code_on_the_page_prints_what_the_page_shows(page, tmp_path):
    for shown, printed in outputs.run(ROOT / page, tmp_path):
        assert agree(shown, printed), f"python docs/outputs.py {page} rewrites the output:\n{printed}"


MOVING = [page for page in PAGES if page.startswith("docs/from-")]


@pytest.mark.parametrize("page", MOVING)
def test_pages_on_moving_compare(page):
    text = (ROOT / page).read_text()
    assert len(text.splitlines()) <= 150
    assert re.search(r"^\| there \| here \|$", text, re.MULTILINE)
    assert "```text" in text


def test_there_are_pages_on_moving():
    assert len(MOVING) == 4


def test_pages_have_code():
    assert {"README.md", "docs/index.md", "docs/formulas.md"} <= set(WITH_CODE)
    assert len(WITH_CODE) > 15


def test_outputs_are_written_below_the_blocks_that_print(tmp_path):
    page = tmp_path / "page.md"
    page.write_text(
        "- A:\n\n  ```python\n  a = 1\n  print(a)\n  ```\n\n```python\nb = a\n```\n\n```text\nold\n```\n\nEnd\n"
    )
    outputs.rewrite(page)
    assert page.read_text() == (
        "- A:\n\n  ```python\n  a = 1\n  print(a)\n  ```\n\n  ```text\n  1\n  ```\n\n```python\nb = a\n```\n\nEnd\n"
    )
    assert outputs.run(page, tmp_path) == [("1\n", "1\n"), ("", "")]


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#]+)[^)]*\)", (ROOT / page).read_text()):
        assert target.startswith("http") or ((ROOT / page).parent / target).exists(), target


def test_the_demo_runs_shows_the_comparison_and_writes_a_report(tmp_path):
    command = [sys.executable, "-W", "error", "-m", "vbsvm", "demo", "--report", tmp_path / "page.html"]
    shown = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    assert re.search(r"VBSVC\(\) +0\.9\d\d", shown)
    assert "Standard errors: robust (sandwich)" in " ".join(shown.split())
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
