from array import array
from collections.abc import Sequence
from typing import Final, TypeAlias

from .journal import Journal as Journal
from .ranked_set import RankedSet
from .rolling import RollingSet
from .shape import BEST as BEST
from .shape import LAST as LAST
from .shape import SUM as SUM
from .shape import Shape as Shape
from .tally import Tally

APPLIED: Final = 1
UNCHANGED: Final = 2
OUT_OF_RANGE: Final = 3

_State: TypeAlias = tuple[bytearray, list[array[int]]]

def apply(
    shape: Shape,
    stores: Sequence[RankedSet | Tally],
    routes: Sequence[int | array[int]],
    rollings: Sequence[RollingSet | None],
    ids: array[int] | list[array[int]],
    values: Sequence[array[int]],
    stamps: int | array[int],
    ats: int | array[int],
    sets: bytes | None,
    all_window: int,
    watch: int,
    start: int,
    stop: int,
    status: bytearray,
    journal: Journal | None = None,
    fadings: Sequence[tuple[int, int] | tuple[array[int], array[int]] | None] = (),
) -> tuple[_State, _State] | None: ...
