"""The sizes of the boards for the targets."""

import msgspec

MILLION = 1_000_000


class FlowScale(msgspec.Struct, frozen=True):
    """The numbers of changes, ledger entries and messages."""

    members: int
    """The number of members on the boards with changes, and in the ledger."""
    events: int
    """The number of events that are counted twice: with changes, on a board that keeps them, and
    without, on a board that does not."""
    rebuilt: int
    """The number of members on a board that is rebuilt from a ledger."""
    messages: int
    """The number of messages in a stream."""
    seconds: float
    """The number of seconds with events at a steady rate."""
    runs: int


class Scale(msgspec.Struct, frozen=True):
    """The numbers of members on the boards of each section."""

    board: int
    """The number of members of the board for events and ranks compared with Redis."""
    weighed: tuple[int, ...]
    """The numbers of members of the boards for memory compared with Redis."""
    grown: tuple[int, ...]
    """The numbers of members of the boards for the cost of an operation by size."""
    large: int
    """The number of members of the board for recovery and stalls."""
    services: bool
    """Whether to run the short benches of the service and of an index server, too."""
    huge: int | None = None
    """The number of members of the huge board, of which the load, the memory and the calls are
    measured. None leaves this board out."""
    flows: FlowScale | None = None
    """The numbers for changes, ledgers and streams, None if they are not measured."""


FULL_SCALE = Scale(
    board=MILLION,
    weighed=(MILLION, 10 * MILLION),
    grown=(10_000, 100_000, MILLION, 10 * MILLION),
    large=10 * MILLION,
    services=True,
    flows=FlowScale(
        members=100_000,
        events=500_000,
        rebuilt=MILLION,
        messages=100_000,
        seconds=10.0,
        runs=3,
    ),
)
HUGE_SCALE = msgspec.structs.replace(
    FULL_SCALE, grown=(*FULL_SCALE.grown, 100 * MILLION), huge=100 * MILLION
)
QUICK_SCALE = Scale(
    board=MILLION,
    weighed=(MILLION,),
    grown=(10_000, 100_000, MILLION),
    large=MILLION,
    services=False,
)
