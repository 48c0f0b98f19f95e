"""Which closed periods of a window are archived. Pure."""

from msgspec import Struct

FOREVER = 0
"""The number of archived periods that stands for all of them."""


class Closing(Struct, frozen=True):
    """What happens to the closed periods of a window.

    The newest `archive` of them are kept in the archive, all of them with `FOREVER`. A window that
    shows the last steps has no periods of its own; what it shows is archived every `every_ms`.
    """

    archive: int = FOREVER
    every_ms: int = 0
