"""The documentation website: it builds without a warning, is whole, and works in a browser without a network.

The gallery and the tutorials are run by the build; their own errors are errors here.
"""

import inspect
import json
import re
import shutil
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote

import pytest

import vbsvm
import vbsvm.dask
from browser import PHONE, open_browser
from vbsvm import datasets, plots

pytest.importorskip("sphinx", reason="the docs extra is not installed")

ROOT = Path(__file__).parent.parent
SOURCES = ("docs", "examples", "CHANGELOG.md", "CONTRIBUTING.md")
MADE = ("_build", "gallery", "generated", "jupyter_execute")


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The site, built from its sources alone, as in a fresh clone."""
    place = tmp_path_factory.mktemp("site")
    for name in SOURCES:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, place / name, ignore=shutil.ignore_patterns(*MADE))
        else:
            shutil.copy(ROOT / name, place)
    command = [sys.executable, "-m", "sphinx", "-b", "html", "-W", "--keep-going", "-q", place / "docs", place / "html"]
    built = subprocess.run(command, capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stderr[-3000:]
    return place / "html"


class Links(HTMLParser):
    """Where a page leads, and the places in it that can be led to."""

    def __init__(self, text):
        super().__init__()
        self.targets, self.places = [], set()
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        found = dict(attrs)
        self.places |= {found.get("id"), found.get("name")}
        self.targets += [found[key] for key in ("href", "src") if found.get(key)]


def broken(pages):
    """Links that lead nowhere."""
    read = {page: Links(page.read_text(encoding="utf-8")) for page in pages}
    for page, links in read.items():
        for target in links.targets:
            if re.match(r"[a-z]+:", target):
                continue
            path, _, place = unquote(target).partition("#")
            leads_to = (page.parent / path.partition("?")[0]).resolve() if path else page
            if not leads_to.exists() or (place and leads_to in read and place not in read[leads_to].places):
                yield f"{page.name}: {target}"


def test_every_link_leads_somewhere(site):
    pages = [
        page.resolve() for page in site.rglob("*.html") if "_static" not in page.parts and page.name != "genindex.html"
    ]
    assert len(pages) > 80
    assert list(broken(pages)) == []


def test_a_broken_link_is_seen(tmp_path):
    (tmp_path / "a.html").write_text('<a href="a.html#here">x</a><a href="b.html">y</a><p id="there"></p>')
    assert list(broken([tmp_path / "a.html"])) == ["a.html: a.html#here", "a.html: b.html"]


def public_names():
    """Every public name, with the public methods and properties of classes that are ours."""
    for module in (vbsvm, plots, vbsvm.dask):
        yield from (f"{module.__name__}.{name}" for name in module.__all__ if not name.startswith("_"))
    yield from (f"vbsvm.datasets.{name}" for name in vars(datasets) if name.startswith("load_"))
    shown = {f"vbsvm.{name}": getattr(vbsvm, name) for name in vbsvm.__all__}
    for place, of_class in shown.items():
        if inspect.isclass(of_class):
            yield from (f"{place}.{name}" for name in vars_of(of_class))


def vars_of(of_class):
    """Public methods and properties that a class of ours, or a base of it, defines."""
    for base in of_class.__mro__:
        if base.__module__.startswith("vbsvm"):
            for name, member in vars(base).items():
                if not name.startswith("_") and (inspect.isfunction(member) or isinstance(member, property)):
                    yield name


def test_every_public_name_is_in_the_reference(site):
    from sphinx.util.inventory import InventoryFile

    with (site / "objects.inv").open("rb") as file:
        inventory = InventoryFile.load(file, "", lambda base, path: path)
    known = {name for kind, names in inventory.items() if kind.startswith("py:") for name in names}
    names = set(public_names())
    assert {"vbsvm.VBSVC.fit", "vbsvm.plots.effects", "vbsvm.Fit.summary"} <= names
    assert names - known == set()


def complaint(output):
    """What a cell has said on stderr, but for progress, and for warnings that tutorials explain."""
    if output.get("name") != "stderr" or "ReliabilityWarning: " in "".join(output["text"]):
        return ""
    return re.sub(r"sweeps: \d+ %, \d+ s left|Pass \d+: bound [^\r\n]*", "", "".join(output["text"])).strip()


def test_a_complaint_is_not_taken_for_progress():
    progress = ["\rsweeps: 2 %, 1 s left\n", "sweeps: 5 %, 0 s left\n", "Pass 16: bound -6.2, 0.3 s a pass\n"]
    said = {"name": "stderr", "output_type": "stream", "text": progress}
    assert not complaint(said)
    assert complaint(said | {"text": [*said["text"], "UserWarning: rough\n"]}) == "UserWarning: rough"


def test_tutorials_can_be_downloaded_with_their_outputs(site):
    notebooks = {path.stem: json.loads(path.read_text()) for path in (site / "_downloads").rglob("*.ipynb")}
    for source in (ROOT / "docs" / "tutorials").glob("[!i]*.md"):
        outputs = [one for cell in notebooks[source.stem]["cells"] for one in cell.get("outputs", [])]
        assert any("image/png" in one.get("data", {}) for one in outputs), source.name
        assert [one for one in outputs if one["output_type"] == "error" or complaint(one)] == []


def test_examples_have_pictures_and_no_warnings(site):
    for source in (ROOT / "examples").glob("*.py"):
        page = (site / "gallery" / f"{source.stem}.html").read_text(encoding="utf-8")
        assert f"sphx_glr_{source.stem}_001.png" in page
        assert not re.search(r"\w*Warning: ", page)


def test_pages_work_on_a_phone_without_network_and_complaints(site):
    written = [path for path in site.rglob("*.html") if not {"_static", "generated"} & set(path.parts)]
    written += [site / "api" / "generated" / f"{name}.html" for name in ("vbsvm.VBSVC", "vbsvm.Fit")]
    with open_browser() as browser, browser.page(written[0], width=PHONE) as page:
        for path in written:
            page.raw.goto(path.as_uri())
            assert not page.scrolls_sideways(), path
            assert [said for said in page.complaints if "[PST]" not in said] == [], path
            assert page.network == [], path


def test_search_works_from_files(site):
    with open_browser() as browser, browser.page(site / "search.html") as page:
        page.raw.goto((site / "search.html").as_uri() + "?q=calibration")
        # Results come one by one: the one that is looked for may take a while.
        found = page.raw.wait_for_selector("ul.search li a:has-text('Calibration of probabilities')")
        assert found.is_visible()
        assert [said for said in page.complaints if "[PST]" not in said] == []
        assert page.network == []
