"""The version of the package, free of imports so that every layer can name it."""

__version__ = "0.2.0"
