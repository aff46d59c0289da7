"""Data sets that come with the package; a page for each file gives its source. It imports nothing else of the
package.
"""

import os
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pandas as pd


def load_toenail() -> "pd.DataFrame":
    """Toenail infection: 1908 visits of 294 patients (De Backer et al. 1998).

    Columns: patientID, outcome ("none or mild", "moderate or severe"), treatment ("itraconazole", "terbinafine"), time
    (months since the start), visit (1 to 7).
    """
    return _packaged("toenail.csv")


def load_acath(path: str | os.PathLike[str] | None = None) -> "pd.DataFrame":
    """Cardiac catheterisation: 3504 patients of the Duke University Cardiovascular Disease Databank; not embedded.

    Columns: sex (1 is female), age, cad.dur (days of symptoms), choleste (cholesterol, missing in 1246 rows), sigdz
    (significant coronary disease), tvdlm. ``path`` is the file ``acath.csv`` or its directory, by default the directory
    named by the environment variable VBSVM_DATA.
    """
    import pandas as pd

    location = os.environ.get("VBSVM_DATA") if path is None else path
    file = None if location is None else Path(location)
    if file is not None and file.is_dir():
        file = file / "acath.csv"
    if file is None or not file.is_file():
        why = "no path was given, and VBSVM_DATA is not set" if file is None else f"there is no file {file}"
        raise FileNotFoundError(
            f"load_acath: {why}. The cardiac catheterisation data (acath) are published by the Vanderbilt University "
            "Department of Biostatistics at https://hbiostat.org/data: save them as acath.csv, and give its path, or "
            "its directory as VBSVM_DATA."
        )
    frame = pd.read_csv(file)
    expected = ["sex", "age", "cad.dur", "choleste", "sigdz", "tvdlm"]
    if list(frame.columns) != expected:
        raise ValueError(f"{file} has the columns {list(frame.columns)}; {expected} are expected.")
    return frame


def load_spam() -> "pd.DataFrame":
    """Spambase: 4601 e-mails, 57 predictors, and ``class``, "spam" or "ham" (Hopkins et al. 1999, UCI, CC BY 4.0).

    Words are called by themselves, characters too: "free", "hp", "!", "$"; then come the runs of capital letters.
    """
    frame = _packaged("spam.csv.gz")
    short = [name.removeprefix("word_freq_").removeprefix("char_freq_") for name in frame.columns]
    frame = frame.set_axis([*short[:-1], "class"], axis="columns")
    return frame.assign(**{"class": ["spam" if label else "ham" for label in frame["class"]]})


def _packaged(name: str) -> "pd.DataFrame":
    """A table in the folder of this file."""
    import pandas as pd

    with files("vbsvm.datasets").joinpath(name).open("rb") as file:
        return pd.read_csv(file, compression="gzip" if name.endswith(".gz") else None)
