"""Sources of rows; what a source is stands in ``layout.base``."""
