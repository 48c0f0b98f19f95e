"""The head of a board: which positions of a ranking can be listed. Pure.

A board with a head lists only its first positions, in every store, so that boards can be moved
between stores. A store that orders all members knows every rank exactly. Other stores know how many
leading positions are certain at the moment, and have bounds for the ranks of the members below
them.
"""

from collections.abc import Sequence

from laurels.errors import BeyondHead

from .index import Located
from .rank import Rank
from .requests import Anchor, End, ReadResult
from .standing import ranks_or_none


def listed(head: int, result: ReadResult) -> int:
    """Return how many leading positions of a ranking can be listed now."""
    most = result.total if head == 0 else min(result.total, head)
    return most if result.certain is None else min(most, result.certain)


def certain_of(head: int, result: ReadResult) -> int | None:
    """Return the number of leading positions that can be listed now, None if all positions can."""
    most = listed(head, result)
    return most if most < result.total else None


def known_positions(head: int, anchors: Sequence[Anchor], result: ReadResult) -> list[int]:
    """Return the positions of `anchors` (Start, End or AtBound). The position of End is always
    known. Raises BeyondHead if another position is uncertain, or is below the end of the head."""
    if certain_of(head, result) is not None:
        for anchor, position in zip(anchors, result.positions, strict=True):
            if not isinstance(anchor, End) and not _is_known(head, position, result):
                raise beyond(head, result)
    return result.positions


def has_exact_position(result: ReadResult, position: int) -> bool:
    """Return whether `position`, which an index returned for a bound, is exact."""
    return result.certain is None or position < result.certain or result.certain >= result.total


def _is_known(head: int, position: int, result: ReadResult) -> bool:
    """Return whether the position of a bound is exact and not below the end of the head."""
    is_exact = result.certain is None or position < result.certain
    return is_exact and position <= head


def ensure_listed(head: int, position: int, result: ReadResult) -> None:
    """Raise BeyondHead if a position of the ranking cannot be listed now."""
    if listed(head, result) <= position < result.total:
        raise beyond(head, result)


def beyond(head: int, result: ReadResult) -> BeyondHead:
    """Return the error for positions that cannot be listed."""
    most = listed(head, result)
    if most < min(head, result.total):
        return BeyondHead(
            f"expected one of the first {most:,} positions of {result.total:,}, got a lower one; "
            f"the head has {head:,} positions, of which the first {most:,} are certain now"
        )
    return BeyondHead(
        f"expected one of the first {head:,} positions of {result.total:,}, which are the head of "
        "the board, got a lower one"
    )


def rank_at(located: Located, i: int) -> Rank | None:
    """Return the rank of the i-th of the requested members, None if it is not ranked."""
    highs = None if located.highs is None else located.highs[i : i + 1]
    return ranks_or_none(located.ranks[i : i + 1], highs)[0]
