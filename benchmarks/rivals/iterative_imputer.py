"""IterativeImputer before a classifier: missing values are predicted from the other inputs, in up to ten rounds."""

from typing import Any

from sklearn.experimental import enable_iterative_imputer  # noqa: F401 - it is what allows the next import
from sklearn.impute import IterativeImputer
from sklearn.pipeline import Pipeline, make_pipeline


def make(classifier: Any) -> Pipeline:
    """Make the pipeline; a classifier that tunes itself does so on rows that are filled already, without labels."""
    return make_pipeline(IterativeImputer(random_state=0), classifier)
