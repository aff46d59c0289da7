"""Make the three pictures of the README and of the first page: ``python docs/pictures.py``."""

from pathlib import Path

import matplotlib as mpl

mpl.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.datasets import load_breast_cancer

from vbsvm import VBSVC, Joint, LaplaceZero, Model, plots
from vbsvm.datasets import load_toenail

IMAGES = Path(__file__).parent / "images"


def coefficients() -> None:
    """A forest plot."""
    X, y = load_breast_cancer(return_X_y=True, as_frame=True)
    plots.coefficients(VBSVC().fit(X.iloc[:, :10], y), top=6)


def effects() -> None:
    """Probabilities over visits, for both treatments."""
    formula = "outcome ~ visit * treatment + (1 | patientID)"
    plots.effects(Model(formula, load_toenail(), positive="moderate or severe").fit(), "visit", by="treatment")


def inclusion() -> None:
    """Which inputs are in: simulated, six of 200 matter."""
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(250, 200)), columns=[f"gene {k}" for k in range(1, 201)])
    y = X.iloc[:, :6] @ [2, -2, 1.5, -1.5, 1, -1] + rng.logistic(size=250) > 0
    plots.inclusion(VBSVC(LaplaceZero(expected_size=6, gates=Joint())).fit(X, y), top=8)


def main() -> None:
    """Draw each, at the same size: that of a card of the first page, so that letters stay large enough."""
    for draw in (coefficients, effects, inclusion):
        draw()
        figure = plt.gcf()
        figure.set_size_inches(3.1, 2.5)
        figure.savefig(IMAGES / f"{draw.__name__}.png", dpi=220)
        plt.close("all")


if __name__ == "__main__":
    main()
