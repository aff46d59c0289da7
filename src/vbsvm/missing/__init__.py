"""Everything about missing inputs and categories: the distributions they are inferred from, why values are missing,
how rows with missing values are resolved in a pass, and what users are told about them. It may import model, design,
storage and base.
"""
