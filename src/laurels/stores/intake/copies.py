"""The parts of copying a board that all stores share: making an origin, and checking an origin."""

from collections.abc import Mapping
from copy import deepcopy

from laurels.core.board_state import Boards, BoardState
from laurels.core.contents import LastRefresh, Origin
from laurels.core.lifecycle import rolling_state
from laurels.errors.copies import BoardChanging, CopyRefused, NameTaken
from laurels.model.validation import quoted

AHEAD_MS = 60_000
"""How far the time of a copied board may be ahead of the store's clock, in milliseconds."""


def origin_of(
    state: BoardState,
    now_ms: int,
    *,
    event_time: bool,
    positions: Mapping[str, str],
    ends: list[tuple[int, int]],
    changes: object,
) -> Origin:
    """Return the origin of a board that is advanced to `now_ms`. Its `positions` leave out empty
    positions, which forgotten sinks leave behind. Its `shown` leaves out windows that were never
    refreshed and wait for no refresh. `changes` identifies the state of the board: it is different
    after every write."""
    windows = state.rules.windows.values()
    rolls = [rolling_state(state.number, window, now_ms) for window in windows]
    return Origin(
        definition=state.board.to_json(),
        uid=state.uid,
        version=state.version,
        created_ms=state.created_ms,
        now_ms=now_ms,
        event_time=event_time,
        floors=dict(state.floors),
        positions={source: text for source, text in positions.items() if text},
        running={roll.ranking.key.window: roll.running for roll in rolls if roll},
        shown={
            window: LastRefresh(each.now_ms, each.waiting)
            for window, each in state.refreshed.items()
            if each.now_ms is not None or each.waiting
        },
        ends=ends,
        state=f"{state.number}.{changes}",
        hidden=list(state.hidden.items()),
        closing=deepcopy(state.closing),
    )


def ensure_sealed(origin: Origin) -> None:
    """Raise BoardChanging for a board with closed periods that are not sealed, since periods are
    copied from the archive."""
    if (window := origin.unsealed()) is not None:
        raise BoardChanging(f"the window {quoted(window)} has closed periods that are not sealed")


def ensure_copyable(origin: Origin, now_ms: int, *, event_time: bool) -> None:
    """Raise CopyRefused if a copy in this store would give other answers than the original board.
    `now_ms` is the time of this store, and `event_time` whether it uses event time. Raise
    BoardChanging if closed periods of the board are not sealed."""
    ensure_sealed(origin)
    if origin.event_time != event_time:
        clocks = ["the clock", "event time"]
        raise CopyRefused(
            f"the board uses {clocks[origin.event_time]}, and the boards of the target use "
            f"{clocks[event_time]}"
        )
    if not event_time and origin.now_ms > now_ms + AHEAD_MS:
        raise CopyRefused(
            f"the time of the board is {origin.now_ms - now_ms} ms ahead of the target's clock"
        )


def unfinished_copy(name: str) -> NameTaken:
    """Return the error for creating a board under a name that an unfinished copy has."""
    return NameTaken(f"the store has an unfinished copy of a board {quoted(name)}")


def name_taken(name: str) -> NameTaken:
    """Return the error for a board whose name is taken in the target."""
    return NameTaken(f"the target has a board {quoted(name)}")


def ensure_absent(boards: Boards, origin: Origin) -> None:
    """Raise NameTaken if the store has the board under another name, with which it was restored
    after its deletion."""
    if (state := boards.find_by_uid(origin.uid)) is not None:
        raise NameTaken(
            f"the board {quoted(origin.board_name)} is in the target already, as "
            f"{quoted(state.board.name)}"
        )
