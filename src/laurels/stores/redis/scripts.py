"""A script that runs on the server."""

from msgspec import Struct


class Script(Struct, frozen=True):
    """The source of a Lua script, and the digest by which the server finds it."""

    name: str
    source: str
    sha: str
