"""Missing inputs and categories: settings, distributions of inputs and of their being missing (``distributions``,
``model``) and of levels (``categories``), what rows add in a pass (``row_parts``, ``updates``), and imputation. It may
import model, design, storage and base.
"""
