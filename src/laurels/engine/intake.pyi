from array import array
from collections.abc import Callable, Iterable, Sequence
from typing import Final, final

from typing_extensions import Buffer

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
    ) -> None: ...

def gather(
    events: Sequence[object],
    *,
    multipliers: Sequence[int],
    lows: Sequence[int],
    highs: Sequence[int],
    at_low: int,
    at_high: int,
    parse: Callable[[object], tuple[bytes, tuple[int, ...], int | None, bytes | None]],
    refusal: type[Exception],
) -> Columns: ...
def pack(values: Buffer) -> bytes: ...
def unpack(data: bytes, n: int) -> array[int]: ...
