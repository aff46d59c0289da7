"""LogisticRegression at its defaults, with an L1 penalty, and with the penalty chosen by its own cross-validation."""

from sklearn.linear_model import LogisticRegression, LogisticRegressionCV


def make() -> LogisticRegression:
    """Make the classifier; its penalty is left at the default."""
    return LogisticRegression()


def make_l1() -> LogisticRegression:
    """Make one that selects inputs; its penalty is left at the default."""
    return LogisticRegression(l1_ratio=1, solver="liblinear")


def make_cv() -> LogisticRegressionCV:
    """Make one that tunes itself, with the grid, the folds and the score that it has by default."""
    return LogisticRegressionCV()
