"""LogisticRegressionCV for sparse tables: the ridge penalty by 5-fold cross-validation, columns as they are."""

from sklearn.linear_model import LogisticRegressionCV

from benchmarks.methods import Method


def make() -> LogisticRegressionCV:
    """Make the classifier."""
    return LogisticRegressionCV(
        Cs=10, cv=5, l1_ratios=(0.0,), scoring="balanced_accuracy", max_iter=300, use_legacy_attributes=False
    )


METHODS = (Method("LogisticRegressionCV", make, tuned=True),)
