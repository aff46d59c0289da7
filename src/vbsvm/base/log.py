"""What fits write to the log, under the name ``vbsvm``: ends of optimisations and chains at INFO, their steps at DEBUG.

Nothing is shown unless the user asks for it, as with ``logging.basicConfig(level="INFO")``.
"""

import logging

log = logging.getLogger("vbsvm")
log.addHandler(logging.NullHandler())
