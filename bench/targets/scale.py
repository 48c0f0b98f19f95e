"""How large the boards of the targets are."""

import msgspec

MILLION = 1_000_000


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


FULL_SCALE = Scale(
    board=MILLION,
    weighed=(MILLION, 10 * MILLION),
    grown=(10_000, 100_000, MILLION, 10 * MILLION),
    large=10 * MILLION,
    services=True,
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
