"""Data sets that come with the package; a page beside each file says where it is from."""

from importlib.resources import files
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pandas as pd


def load_toenail() -> "pd.DataFrame":
    """Toenail infection: 1908 visits of 294 patients (De Backer et al. 1998).

    Columns: patientID, outcome ("none or mild", "moderate or severe"), treatment ("itraconazole", "terbinafine"), time
    (months since the start), visit (1 to 7).
    """
    import pandas as pd

    with files("vbsvm.datasets").joinpath("toenail.csv").open(encoding="utf-8") as file:
        return pd.read_csv(file)
