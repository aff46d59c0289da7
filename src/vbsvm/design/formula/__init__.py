"""Formulas: their syntax, the guard that decides what may be evaluated, the reader that learns and encodes, and terms
whose predictors or categories may be missing. This is the only place that imports formulaic; otherwise it may import
design, storage and base.
"""
