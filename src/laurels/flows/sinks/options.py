"""The options of a sink."""

from collections.abc import Sequence
from typing import Literal

from msgspec import Struct

from .target import POSITION_PREFIX

What = Literal["all", "changes", "payouts"]


class SinkOptions(Struct, frozen=True):
    """Which boards a sink reads, how it begins and when it ends."""

    name: str
    boards: Sequence[str] | None = None
    """Patterns of board names; None stands for all boards."""
    initial: bool = False
    """Whether to send every current entry first, on boards that have no position yet."""
    until_end: bool = False
    """Whether to end when the changes of every board have been sent."""
    tries: int = 5
    """How many times a page that the target refuses is sent before it is parked."""
    what: What = "all"
    """Whether the sink sends changes, due payouts, or both."""

    @property
    def sends_changes(self) -> bool:
        """Whether the sink sends changes."""
        return self.what != "payouts"

    @property
    def sends_payouts(self) -> bool:
        """Whether the sink sends due payouts."""
        return self.what != "changes"

    @property
    def source(self) -> str:
        """The name of the sink's positions in the store."""
        return POSITION_PREFIX + self.name
