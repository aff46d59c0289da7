"""Layouts: how the joint law of all coefficients is stored, solved for, packed and drawn from."""
