from collections.abc import Sequence
from typing import Final, Self, final

SUM: Final = 0
LAST: Final = 1
BEST: Final = 2

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
