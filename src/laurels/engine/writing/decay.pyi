from array import array
from collections.abc import Callable

from typing_extensions import Buffer

def weights(
    ats: Buffer, half_life: int, powers: Buffer, nearest: Callable[[int, int], int]
) -> tuple[array[int], array[int]]: ...
def add(total: tuple[int, int], value: int, exponent: int, mantissa: int) -> tuple[int, int]: ...
