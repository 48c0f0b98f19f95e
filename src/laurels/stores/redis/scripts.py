"""Scripts that run on the server."""

from msgspec import Struct


class Script(Struct, frozen=True):
    """A script and the name by which the server remembers it."""

    name: str
    source: str
    sha: str
