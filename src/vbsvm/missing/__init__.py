"""Missing predictors and categories: settings, distributions of predictors and of missingness (``distributions``,
``model``) and of levels (``categories``), what rows add in a pass (``row_parts``, ``updates``), and imputation. It may
import model, design, storage and base.
"""
