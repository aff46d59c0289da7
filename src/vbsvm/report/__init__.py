"""One page of HTML that says what was fitted, to what, what came out, and how far to trust it."""

from vbsvm.report.page import write

__all__ = ["write"]
