"""From the user's columns to the columns of a design: kinds of values, frames, scaling, levels, splines, and
formulas. It may import storage and base, and knows nothing of models or rows in memory.
"""
