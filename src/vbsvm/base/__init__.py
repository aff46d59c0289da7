"""What every other room may use and what knows nothing of models: arrays, distributions of scalars, the two readings
of a conditional (keep or draw), sums over blocks of rows in threads, checks of settings, diagnostics of chains, and
printing. It imports nothing else of the package.
"""
