"""The errors of the client only."""

from . import InvalidInput


class MissingClient(InvalidInput):
    """The package for HTTP is not installed."""

    code = "missing_client"
    advice = "in a checkout of laurels run pip install '.[client]'"
