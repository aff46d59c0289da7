"""How the joint distribution of all coefficients is stored, solved for, packed and drawn from: dense, arrow (groups),
dual (more columns than rows), gates with coefficients, and draws. It may import base, and the interfaces and gates of
model.
"""
