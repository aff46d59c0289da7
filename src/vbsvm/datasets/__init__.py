"""Data sets that come with the package; a page beside each file says where it is from."""

import gzip
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


def load_spam() -> "pd.DataFrame":
    """Spambase: 4601 e-mails, 57 inputs, and ``class``, "spam" or "ham" (Hopkins et al. 1999, UCI, CC BY 4.0).

    Words are called by themselves, characters too: "free", "hp", "!", "$"; then come the runs of capital letters.
    """
    import pandas as pd

    with files("vbsvm.datasets").joinpath("spam.csv.gz").open("rb") as file, gzip.open(file, "rt") as text:
        frame = pd.read_csv(text)
    short = [name.removeprefix("word_freq_").removeprefix("char_freq_") for name in frame.columns]
    frame.columns = pd.Index([*short[:-1], "class"])
    return frame.assign(**{"class": ["spam" if label else "ham" for label in frame["class"]]})
