from typing import Final

WHOLE: Final = 0
MALFORMED: Final = 1
TOO_MANY_VALUES: Final = 2
TOO_DEEP: Final = 3
TOO_MANY_IN_ALL: Final = 4

def outline_json(
    raw: bytes, most_values: int, piece: int, lines: bool = False, most_in_all: int = ...
) -> tuple[int, int, bool, int, list[tuple[int, int, int]]]: ...
def outline_msgpack(
    raw: bytes, most_values: int, piece: int, most_in_all: int = ...
) -> tuple[int, int, bool, int, list[tuple[int, int, int]]]: ...
