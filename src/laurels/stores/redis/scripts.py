"""Scripts that run on the server."""

from msgspec import Struct


class Script(Struct, frozen=True):
    """A script, and the digest by which the server knows it."""

    name: str
    source: str
    sha: str
