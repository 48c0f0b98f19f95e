"""The command line: see `laurels --help`."""

from .program import main

__all__ = ["main"]
