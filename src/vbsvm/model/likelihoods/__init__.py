"""How labels depend on scores: ``base`` says what a likelihood provides, ``hinge`` is the paper's augmented bound on
the hinge loss, ``exact_hinge`` is the exact expectation of that loss, and ``averaged_hinge`` averages it over a score
that is normal even given the coefficients. It may import base, and the interfaces of model.
"""
