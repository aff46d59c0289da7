"""HistGradientBoostingClassifier, which sends missing values down the better branch of each split; at its defaults."""

from sklearn.ensemble import HistGradientBoostingClassifier


def make() -> HistGradientBoostingClassifier:
    """Make the classifier."""
    return HistGradientBoostingClassifier(random_state=0)
