"""Which closed periods of a window are archived. Pure."""

from msgspec import Struct

FOREVER = 0
"""The number of archived periods that stands for all of them."""


class Closing(Struct, frozen=True):
    """The rule for archiving the closed periods of a window.

    The archive keeps the newest `archive` closed periods, or all of them with `FOREVER`. A rolling
    window has no periods that end; instead, its ranking is archived every `every_ms`.
    """

    archive: int = FOREVER
    every_ms: int = 0
