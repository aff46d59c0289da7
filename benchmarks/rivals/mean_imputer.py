"""SimpleImputer in front of a classifier: every missing value takes its column's mean."""

from typing import Any

from sklearn.impute import SimpleImputer
from sklearn.pipeline import Pipeline, make_pipeline


def make(classifier: Any) -> Pipeline:
    """Make the pipeline; a classifier that tunes itself does so on rows that are filled already."""
    return make_pipeline(SimpleImputer(), classifier)
