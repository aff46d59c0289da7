"""Missing inputs and categories: settings, why values are missing (``mechanisms``), distributions of inputs and of
levels (``model``, ``categories``), what rows add in a pass (``row_parts``, ``updates``), and imputation. It may import
model, design, storage and base.
"""
