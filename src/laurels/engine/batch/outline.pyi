from typing import Final

WHOLE: Final = 0
MALFORMED: Final = 1
TOO_MANY_VALUES: Final = 2
TOO_DEEP: Final = 3

def outline_json(
    raw: bytes, most_values: int, piece: int, lines: bool = False
) -> tuple[int, int, bool, int, list[tuple[int, int, int]]]: ...
def outline_msgpack(
    raw: bytes, most_values: int, piece: int
) -> tuple[int, int, bool, int, list[tuple[int, int, int]]]: ...
