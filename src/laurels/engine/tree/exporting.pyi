from array import array

from .ranked_set import RankedSet

def export_entries(
    ranking: RankedSet, start: int, stop: int
) -> tuple[bytes, bytes, list[array[int]]]: ...
