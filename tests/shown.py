"""Fits whose tables and attributes show the spreads of another kind."""

import copy


def by_mean_field(clf):
    """The estimator with the spreads that the climb ended with."""
    found = copy.copy(clf)
    found.fit_ = tuple(fit._showing("mean-field") for fit in clf.fit_)
    return found
