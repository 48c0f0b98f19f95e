"""The command line: `laurels board | import | export | top | rank | around | check | rebuild`."""

from .program import main

__all__ = ["main"]
