"""The version, written only here."""

__version__ = "0.3.0"
