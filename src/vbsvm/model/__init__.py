"""The statistical model for complete rows: likelihoods, priors, layouts of the coefficients' distribution, the
specification and state of a model, the pass over the rows, the sweep of updates, and the ELBO. It may import storage
and base, never design or sources: it does not depend on where rows are stored, and only declares the interface of
models for missing values.
"""
