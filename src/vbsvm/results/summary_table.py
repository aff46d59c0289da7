"""The data frame of a summary, which prints every column; imported when one is made, as it needs pandas."""

from typing import final

import pandas as pd

from vbsvm.base.printing import text_width, wrap_text
from vbsvm.results.tables import most_notable


@final
class SummaryTable(pd.DataFrame):
    """A data frame that prints all columns, the last ones below, and of many rows those that matter most."""

    @property
    def _constructor(self) -> type[pd.DataFrame]:
        return pd.DataFrame

    def __repr__(self) -> str:
        """The rows and columns as text, and which rows these are."""
        shown, which = most_notable(self)
        return "\n\n".join([shown.to_string(line_width=text_width()), *filter(None, [wrap_text(which)])])
