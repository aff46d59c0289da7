"""The rooms of the package: the contract, the table and the picture in the documentation, and the docstrings agree."""

import ast
import importlib.util
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "src" / "vbsvm"
ROOMS = sorted(path.parent.name for path in PACKAGE.glob("*/__init__.py"))


@pytest.fixture(scope="module")
def house():
    """The script that draws the picture."""
    spec = importlib.util.spec_from_file_location("house", ROOT / "docs" / "house.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_table_of_rooms_is_the_contract(house):
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (\d+) \| ([^|]*) \|", page, flags=re.MULTILINE)
    assert [int(number) for number, _ in rows] == list(range(10, 0, -1))
    assert [set(re.findall(r"`(\w+)`", rooms)) for _, rooms in rows] == [set(layer) for layer in house.layers()]


def test_the_contract_has_all_rooms(house):
    assert set(ROOMS) <= {room for layer in house.layers() for room in layer}


def test_the_picture_has_all_rooms_and_the_one_call_upwards(house):
    layers = house.layers()
    assert set(house.PLACES) == {room for layer in layers for room in layer}
    floor = {room: k for k, layer in enumerate(reversed(layers)) for room in layer}
    upwards = {(source, target) for source, target in house.imports() if floor[source] < floor[target]}
    assert upwards == {("results", "report"), ("results", "plots")}


@pytest.mark.parametrize("room", ROOMS)
def test_a_room_says_what_it_is(room):
    told = ast.get_docstring(ast.parse((PACKAGE / room / "__init__.py").read_text(encoding="utf-8")))
    assert len(told or "") >= 80
    assert "import" in told


def test_the_page_names_modules_that_exist():
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    places = [ROOT, PACKAGE, PACKAGE / "model", PACKAGE / "model" / "layouts", ROOT / "tests"]
    names = {path.name for place in ("src", "tests", "docs", "reproduction") for path in (ROOT / place).rglob("*.py")}
    stated = set(re.findall(r"`([\w/]+\.py)`", page))
    lost = [one for one in stated if not any((place / one).is_file() for place in places) and one not in names]
    assert len(stated) > 50
    assert lost == []
