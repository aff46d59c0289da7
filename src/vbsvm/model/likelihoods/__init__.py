"""How labels depend on scores: ``base`` says what a likelihood provides, ``hinge`` is the paper's augmented bound on
the hinge loss, and ``exact_hinge`` is the exact expectation of that loss. It may import base, and the interfaces of
model.
"""
