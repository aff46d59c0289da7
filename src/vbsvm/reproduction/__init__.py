"""The paper's numerical experiments (Section 4), run again: ``vbsvm reproduce``."""
