"""The boards and members that a service is asked for most."""

from laurels.model.answer import Answer


class HotBoard(Answer, frozen=True):
    """A board, and about how many queries asked for it."""

    board: str
    count: int


class HotMember(Answer, frozen=True):
    """A member of a board, and about how many queries asked for it."""

    board: str
    member: str
    count: int


class HotReport(Answer, frozen=True):
    """The boards and members with many queries in the last `seconds`, most frequent first."""

    seconds: float
    boards: list[HotBoard]
    members: list[HotMember]


NOTHING_COUNTED = HotReport(0.0, [], [])
"""The report of a store that counts no queries: it covers no time."""
