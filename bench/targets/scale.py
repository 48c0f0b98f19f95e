"""How large the boards of the targets are."""

import msgspec

MILLION = 1_000_000


class FlowScale(msgspec.Struct, frozen=True):
    """How much flows in and out."""

    members: int
    """Members of the boards whose changes are kept, and that a ledger gets."""
    events: int
    """Events with and without changes."""
    rebuilt: int
    """Members of a board that is made from a ledger."""
    messages: int
    """Messages of a stream."""
    seconds: float
    """For how long events come at a steady rate."""
    runs: int


class Scale(msgspec.Struct, frozen=True):
    """Members of the boards of each section."""

    board: int
    """Events and ranks beside Redis."""
    weighed: tuple[int, ...]
    """Memory beside Redis."""
    grown: tuple[int, ...]
    """The cost of an operation by size."""
    large: int
    """Recovery, and stalls."""
    services: bool
    """Whether short forms of the benches over HTTP and of an index server are run."""
    huge: int | None = None
    """Loaded and served alone."""
    flows: FlowScale | None = None
    """Changes, ledgers and streams, where they are measured."""


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
