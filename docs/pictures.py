"""Make the three pictures of the README and of the first page: ``python docs/pictures.py``."""

from pathlib import Path

import matplotlib as mpl

mpl.use("Agg")
import matplotlib.pyplot as plt
from sklearn.datasets import load_breast_cancer

from vbsvm import VBSVC, LaplaceZero, Model, plots
from vbsvm.datasets import load_spam, load_toenail

IMAGES = Path(__file__).parent / "images"


def coefficients() -> None:
    """A forest plot."""
    X, y = load_breast_cancer(return_X_y=True, as_frame=True)
    plots.coefficients(VBSVC().fit(X.iloc[:, :10], y))


def effects() -> None:
    """Probabilities over visits, for both treatments."""
    formula = "outcome ~ visit * treatment + (1 | patientID)"
    plots.effects(Model(formula, load_toenail(), positive="moderate or severe").fit(), "visit", by="treatment")


def inclusion() -> None:
    """Which inputs are in."""
    data = load_spam()
    plots.inclusion(VBSVC(LaplaceZero(rho=0.01)).fit(data.drop(columns="class"), data["class"]), top=15)


def main() -> None:
    """Draw each, at the same size."""
    for draw in (coefficients, effects, inclusion):
        draw()
        figure = plt.gcf()
        figure.set_size_inches(5.2, 4.2)
        figure.savefig(IMAGES / f"{draw.__name__}.png", dpi=130)
        plt.close("all")


if __name__ == "__main__":
    main()
