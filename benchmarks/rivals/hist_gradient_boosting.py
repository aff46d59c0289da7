"""HistGradientBoostingClassifier, which sends holes down the better branch of each split; all at its defaults."""

from sklearn.ensemble import HistGradientBoostingClassifier


def make() -> HistGradientBoostingClassifier:
    """Make the classifier."""
    return HistGradientBoostingClassifier(random_state=0)
