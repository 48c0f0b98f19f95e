"""The errors that only the client of a service raises."""

from . import InvalidInput


class MissingClient(InvalidInput):
    """The package that the client uses for HTTP is not installed."""

    code = "missing_client"
    advice = "in a checkout of laurels run pip install '.[client]'"
