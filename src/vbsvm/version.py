"""The version, below everything that writes it into files."""

__version__ = "0.3.0"
