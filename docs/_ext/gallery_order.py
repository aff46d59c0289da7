"""The order of the gallery: as a newcomer would ask."""

ORDER = (
    "breast_cancer",
    "calibration",
    "toenail",
    "schools",
    "spam",
    "missing",
    "curves",
    "logistic",
    "inferences",
    "batches",
)


def position(filename: str) -> int:
    """Place of an example; a new one has to be put into the list."""
    return ORDER.index(filename.removesuffix(".py"))
