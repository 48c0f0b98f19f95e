from array import array
from collections.abc import Sequence
from typing import Final, TypeAlias

from laurels.engine.rolling.rolling import RollingSet
from laurels.engine.tally.tally import Tally
from laurels.engine.tree.ranked_set import RankedSet
from laurels.engine.writing.journal import Journal as Journal
from laurels.engine.writing.shape import BEST as BEST
from laurels.engine.writing.shape import LAST as LAST
from laurels.engine.writing.shape import SUM as SUM
from laurels.engine.writing.shape import Shape as Shape

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
    decays: Sequence[tuple[int, int] | tuple[array[int], array[int]] | None] = (),
    traces: Sequence[tuple[int, Sequence[array[int]]]] = (),
    added: Sequence[array[int]] | None = None,
) -> tuple[_State, _State] | None: ...
