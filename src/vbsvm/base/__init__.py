"""Utilities that know nothing of models: arrays, distributions of scalars, the two update modes of a full conditional
(keep it or draw from it), threaded sums over blocks of rows, checks of settings, convergence diagnostics of chains, and
printing. It imports nothing else of the package.
"""
