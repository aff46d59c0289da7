"""Charts of the benchmarks are up to date with their data, have alternative texts, and show figures of the tables."""

import csv
import hashlib
import re
from itertools import groupby
from pathlib import Path

import pytest

DOCS = Path(__file__).parent.parent / "docs"
PAGE = (DOCS / "benchmarks.md").read_text(encoding="utf-8")
CHARTS = dict(re.findall(r"^!\[([^\]]*)\]\((images/benchmarks/[\w-]+\.svg)\)", PAGE, re.MULTILINE))
DATA = sorted((DOCS / "benchmark-data").glob("*.csv"))
NUMBER = re.compile(r"(?<![\d.\w])[-+]?\d*\.?\d+")


def table_rows():
    """Each row of a table, as its names and its numbers."""
    for page in ("benchmark-tables.md", "benchmark-tables-speed.md"):
        for line in (DOCS / page).read_text(encoding="utf-8").splitlines():
            if line.startswith("| "):
                text = line.replace("−", "-").replace("`", "")
                yield text, [number.lstrip("+") for number in NUMBER.findall(text)]


ROWS = list(table_rows())


def is_in_order(numbers, row):
    """Whether a row has these numbers in this order, perhaps among others."""
    found = iter(row)
    return all(any(number == other for other in found) for number, _ in groupby(numbers))


def shown_in_a_table(record):
    """Whether a row of a table begins with the name of a record and has its other names and its numbers."""
    name, *cells = (cell for column, cell in record.items() if column != "label" and cell)
    numbers = [cell for cell in cells if NUMBER.fullmatch(cell)]
    words = [cell for cell in cells if cell not in numbers]
    return any(
        text.startswith(f"| {name} |") and all(word in text for word in words) and is_in_order(numbers, row)
        for text, row in ROWS
    )


@pytest.mark.parametrize("path", DATA, ids=lambda path: path.stem)
def test_tables_have_the_figures_of_the_charts(path):
    with path.open(encoding="utf-8", newline="") as file:
        records = list(csv.DictReader(file))
    assert records
    assert [record for record in records if not shown_in_a_table(record)] == []


def test_an_altered_or_swapped_figure_is_noticed():
    record = {"design": "500 × 10", "cavi": "88", "vbsvc": "6", "ratio": "14.7"}
    assert shown_in_a_table(record)
    assert not shown_in_a_table(record | {"cavi": "89"})
    assert not shown_in_a_table(record | {"cavi": "6", "vbsvc": "88"})
    assert not shown_in_a_table(record | {"design": "500 × 50"})


def test_charts_are_up_to_date_and_shown_with_an_alternative_text():
    assert set(CHARTS.values()) == {f"images/benchmarks/{path.name}" for path in (DOCS / "images/benchmarks").iterdir()}
    assert [alt for alt in CHARTS if len(NUMBER.findall(alt)) < 3] == []
    drawn = {}
    for chart in CHARTS.values():
        drawn |= re.findall(r"([\w-]+)\.csv ([0-9a-f]{16})", (DOCS / chart).read_text(encoding="utf-8"))
    texts = {path.stem: path.read_text(encoding="utf-8") for path in DATA}
    expected = {name: hashlib.sha256(text.encode()).hexdigest()[:16] for name, text in texts.items()}
    assert drawn == expected, "run python docs/charts.py"
