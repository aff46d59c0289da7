"""LogisticRegressionCV: the ridge penalty by 5-fold cross-validation along a warm-started path."""

from sklearn.linear_model import LogisticRegressionCV
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler

from benchmarks.methods import Method


def make(scoring: str = "neg_log_loss") -> Pipeline:
    """Make the classifier; the log loss, scikit-learn's coming default, is a steadier guide than counted errors."""
    logistic = LogisticRegressionCV(Cs=13, cv=5, l1_ratios=(0.0,), scoring=scoring, use_legacy_attributes=False)
    return make_pipeline(StandardScaler(), logistic)


METHODS = (Method("LogisticRegressionCV", make, tuned=True),)
