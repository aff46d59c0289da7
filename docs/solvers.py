"""Write docs/solvers.md from the tables in ``vbsvm.inference.solvers``: ``python docs/solvers.py``."""

from collections.abc import Iterable
from pathlib import Path

from vbsvm.inference.solvers import AUTO, BOUNDS, SOLVERS, UNSUPPORTED, Feature, Row

TITLE = """# Bounds and solvers

This page is printed from the tables in `inference/solvers.py` by `python docs/solvers.py`. In each table, the first row
is used that matches the model: all features under "needs" are present, and none of those under "not with".
"""


def _cells(features: Iterable[Feature]) -> str:
    return ", ".join(f"`{feature.name}`" for feature in Feature if feature in features) or "–"


def _table(title: str, rows: Iterable[Row]) -> str:
    lines = [f"| {row.name} | {_cells(row.needs)} | {_cells(row.not_with)} | {row.why} |" for row in rows]
    return "\n".join([title, "", "| | needs | not with | why |", "|---|---|---|---|", *lines, ""])


def page() -> str:
    """The text of the page."""
    refused = [f"| {feature.value} | {advice} |" for feature, advice in UNSUPPORTED.items()]
    named = [f"| `{feature.name}` | {feature.value} |" for feature in Feature]
    return "\n".join(
        [
            TITLE,
            _table(f'## Which bound `bound="{AUTO}"` is', BOUNDS),
            "## Features that the exact and the integrated bound do not support\n",
            "\n".join(["| feature | instead |", "|---|---|", *refused, ""]),
            _table("## Which solver maximises it", SOLVERS),
            "## Features\n",
            "\n".join(["| name | what it is |", "|---|---|", *named]),
        ]
    )


if __name__ == "__main__":
    Path(__file__).with_suffix(".md").write_text(page() + "\n", encoding="utf-8")
