from array import array
from collections.abc import Sequence
from typing import Final, Self, TypeAlias, final

from .ranked_set import RankedSet

SUM: Final = 0
LAST: Final = 1
BEST: Final = 2

APPLIED: Final = 1
UNCHANGED: Final = 2
OUT_OF_RANGE: Final = 3

_State: TypeAlias = tuple[bytearray, list[array[int]]]

@final
class Shape:
    def __new__(
        cls,
        ops: Sequence[int],
        lows: Sequence[int],
        highs: Sequence[int],
        tie: int,
        stamped: bool = False,
    ) -> Self: ...

def apply(
    shape: Shape,
    rankings: Sequence[RankedSet],
    routes: Sequence[int | array[int]],
    ids: array[int],
    values: Sequence[array[int]],
    stamps: int | array[int],
    ats: int | array[int],
    sets: bytes | None,
    all_window: int,
    watch: int,
    start: int,
    stop: int,
    status: bytearray,
) -> tuple[_State, _State] | None: ...
