"""Errors of the client alone."""

from . import InvalidInput


class MissingClient(InvalidInput):
    """The package that talks HTTP is not installed."""

    code = "missing_client"
    advice = "in a checkout of laurels run pip install '.[client]'"
