"""List the sinks or sources of a store, by the positions that its boards store."""

from collections.abc import Sequence
from contextlib import suppress

from msgspec import Struct

from laurels.api.leaderboards import Leaderboards
from laurels.errors import UnknownBoard
from laurels.errors.service import Forbidden, NoSuchPath
from laurels.model.board_patterns import reaches


class ListedFlow(Struct, frozen=True):
    """A sink or a source, with the names of the boards that store a position of it."""

    name: str
    boards: list[str]


def list_flows(
    lb: Leaderboards, prefix: str, patterns: Sequence[str] | None = None
) -> list[ListedFlow]:
    """Return the sinks or sources, sorted by name. A board stores the position of each of them
    under `prefix` and the name. This takes one call for each board."""
    boards_by_name: dict[str, list[str]] = {}
    for board in lb.boards():
        if not reaches(patterns, board.name):
            continue
        try:
            positions = lb.positions(board.name)
        except UnknownBoard:  # the board was deleted meanwhile
            continue
        for source in positions:
            if source.startswith(prefix):
                boards_by_name.setdefault(source.removeprefix(prefix), []).append(board.name)
    return [ListedFlow(name, boards_by_name[name]) for name in sorted(boards_by_name)]


def list_sinks(
    lb: Leaderboards, prefix: str, patterns: Sequence[str] | None = None
) -> list[ListedFlow]:
    """Return the sinks, sorted by name. Sinks that have only a position among the due payouts are
    included if the key may read these positions."""
    listed = {each.name: each for each in list_flows(lb, prefix, patterns)}
    with suppress(Forbidden, NoSuchPath):
        for reader in lb.payout_positions():
            source, _, selection = reader.partition(" ")
            if source.startswith(prefix):
                flow = listed.setdefault(name := source.removeprefix(prefix), ListedFlow(name, []))
                flow.boards.append(f"payouts of {selection}" if selection else "payouts")
    return [listed[name] for name in sorted(listed)]
