"""Check apparent differences in rounds, since both sides of a comparison keep changing.

A member with changes that the sink has not yet written is checked again in the next round.
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from msgspec import Struct

from laurels.api.aio import AsyncLeaderboards
from laurels.core.changes.answers import Change
from laurels.errors import ChangesExpired, CursorDiverged
from laurels.errors.sinks import SinkBehind

from .locked import SinkPosition

T = TypeVar("T")
AT_ONCE = 200
"""The number of items that are checked together, while the sink waits."""
ROUNDS = 8
WAIT_SECONDS = 0.25
CHANGES = 10_000

Sleep = Callable[[float], Awaitable[None]]


async def in_rounds(
    undecided: Sequence[T], check: Callable[[Sequence[T]], Awaitable[list[T]]], sleep: Sleep
) -> list[T]:
    """Check items in rounds: the items that `check` returns are checked again in the next round.
    Return those that are still undecided after the last round."""
    for number in range(ROUNDS):
        if number and undecided:
            await sleep(WAIT_SECONDS)
        next_round: list[T] = []
        for first in range(0, len(undecided), AT_ONCE):
            next_round += await check(undecided[first : first + AT_ONCE])
        undecided = next_round
        if not undecided:
            break
    return list(undecided)


class ChangedSince(Struct, frozen=True):
    """The members and sources with changes that are not in a ledger yet."""

    members: set[str]
    sources: set[str]


async def changed_since(lb: AsyncLeaderboards, board: str, position: SinkPosition) -> ChangedSince:
    """Return the members and sources of a board with changes after the position of its ledger.
    Raises SinkBehind."""
    changed = ChangedSince(set(), set())
    for change in await changes_since(lb, board, position):
        if change.member is not None:
            changed.members.add(change.member)
        if change.kind == "position":
            changed.sources.add(str(change.data["source"]))
    return changed


async def changes_since(lb: AsyncLeaderboards, board: str, position: SinkPosition) -> list[Change]:
    """Return the changes of a board after the position of its ledger. Raises SinkBehind."""
    changes: list[Change] = []
    after, more = position.cursor, True
    try:
        while more:
            page = await lb.changes(board, after=after, limit=CHANGES)
            changes += page.changes
            after, more = page.cursor, page.more
            if page.is_end:
                raise SinkBehind(
                    f"the sink {position.sink!r} has not sent the deletion of the earlier board "
                    f"{board!r}"
                )
    except (ChangesExpired, CursorDiverged) as error:
        raise SinkBehind(f"the sink {position.sink!r}: {error.what}") from error
    return changes
