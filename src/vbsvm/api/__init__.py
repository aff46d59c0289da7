"""The public face: ``VBSVC``, ``Model`` and ``load``, with the checks of everything users hand in and the assembly of
problems from it. It may import every package but the command line. scikit-learn is known here and
to the command line's demonstration only.
"""
