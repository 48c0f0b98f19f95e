"""The sizes of the boards of the targets."""

import msgspec

MILLION = 1_000_000


class FlowScale(msgspec.Struct, frozen=True):
    """The amounts of changes, ledger entries and messages."""

    members: int
    """The members of the boards with changes, and of the ledger."""
    events: int
    """The events counted with and without changes."""
    rebuilt: int
    """The members of a board that is made from a ledger."""
    messages: int
    """The messages of a stream."""
    seconds: float
    """The seconds for which events come at a steady rate."""
    runs: int


class Scale(msgspec.Struct, frozen=True):
    """The members of the boards of each section."""

    board: int
    """The members for events and ranks beside Redis."""
    weighed: tuple[int, ...]
    """Memory beside Redis."""
    grown: tuple[int, ...]
    """The sizes for the cost of an operation."""
    large: int
    """Recovery, and stalls."""
    services: bool
    """Whether short forms of the benches over HTTP and of an index server are run."""
    huge: int | None = None
    """The members of the board that is loaded and served alone."""
    flows: FlowScale | None = None
    """The scale of changes, ledgers and streams, None if they are not measured."""


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
