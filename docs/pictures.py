"""Make the pictures of the README: ``python docs/pictures.py``."""

import re
from pathlib import Path

import matplotlib as mpl

mpl.use("Agg")
import matplotlib.pyplot as plt

from vbsvm import plots

HERE = Path(__file__).parent
NAMES = ("coefficients", "random_effects", "inclusion", "missing", "densities")


def main() -> None:
    """Run every example of the README that draws, and keep what it draws."""
    text = (HERE.parent / "README.md").read_text(encoding="utf-8")
    for name in NAMES:
        (block,) = (
            block for block in re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL) if f"plots.{name}(" in block
        )
        exec(compile(block, f"README.md, {name}", "exec"), {})
        plots.save(plt.gcf(), HERE / "images" / f"{name}.png", dpi=150)
        plt.close("all")


if __name__ == "__main__":
    main()
