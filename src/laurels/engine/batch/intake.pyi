from array import array
from collections.abc import Callable, Iterable, Sequence
from typing import Final, final

from laurels.model.labels import Labels

MISSING: Final = -9223372036854775808

@final
class Columns:
    n: int
    arena: bytes
    lengths: bytes
    values: tuple[array[int], ...]
    ats: array[int] | None
    ids: list[bytes | None] | None
    kept: array[int] | None
    errors: list[tuple[int, Exception]]
    groups: array[int] | None
    labels: Labels | None
    def __init__(
        self,
        n: int,
        arena: bytes,
        lengths: bytes,
        values: tuple[array[int], ...],
        ats: array[int] | None = None,
        ids: list[bytes | None] | None = None,
        kept: array[int] | None = None,
        errors: Iterable[tuple[int, Exception]] = (),
        groups: array[int] | None = None,
        labels: Labels | None = None,
    ) -> None: ...

def are_plain(texts: list[str]) -> bool: ...
def gather(
    events: Sequence[object],
    *,
    multipliers: Sequence[int],
    lows: Sequence[int],
    highs: Sequence[int],
    at_low: int,
    at_high: int,
    parse: Callable[[object], tuple[bytes, tuple[int, ...], int | None, bytes | None, object]],
    error_type: type[Exception],
    group_number: Callable[[object], int],
    always: bool = False,
) -> Columns: ...
