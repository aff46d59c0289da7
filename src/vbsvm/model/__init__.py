"""What is fitted, for rows that miss nothing: likelihoods, priors, layouts of the coefficients, the specification and
state of a model, the row pass, the sweep, and the bound. It may import storage and base, never design or sources:
where rows come from is not its concern, and what may be missing fills a slot whose interface is declared here.
"""
