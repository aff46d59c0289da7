"""One page of HTML that says what was fitted, to what, what came out, and how far to trust it. It may import plots,
results and everything below; ``document`` alone knows the template engine.
"""

from vbsvm.report.effects import Owner
from vbsvm.report.page import write

__all__ = ["Owner", "write"]
