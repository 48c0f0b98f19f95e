"""Checks during the move of a board: whether the copy is complete, whether it has to be begun
again, and whether the move is refused."""

from collections.abc import Callable, Iterator

from laurels.core.contents import Origin, PieceT, RankingRows, grouped
from laurels.core.stats import BoardStats
from laurels.errors.copies import BoardChanging
from laurels.errors.placement import BoardMoving, MoveRefused
from laurels.model.board import Board
from laurels.model.validation import quoted
from laurels.stores.base import Servable

_STEP_SHARE = 0.9
"""A copy that failed after this share of a step has begun soon after the beginning of the step."""
_COMPARISONS = 3
"""How many times a difference is checked again, since a period may have ended between two reads."""


class HoldTimer:
    """Measures for how long the writes of a board are held, and limits this time to
    `most_seconds`."""

    def __init__(self, clock: Callable[[], float], most_seconds: float) -> None:
        self._clock = clock
        self._most_seconds = most_seconds
        self._began = clock()
        self.seconds = 0.0

    def ensure_time(self) -> None:
        """Raise BoardMoving when the writes have waited for too long."""
        if self._clock() - self._began > self._most_seconds:
            raise BoardMoving("the last changes took too long to copy; allow a longer pause")

    def end(self) -> None:
        """Store in `seconds` for how long the writes were held."""
        self.seconds = self._clock() - self._began


def ensure_steps_are_longer(origin: Origin, seconds: float) -> None:
    """Raise MoveRefused if a failed copy had taken as long as a step of a rolling window lasts.
    Then the next copy could not be completed within a step either."""
    windows = Board.from_json(origin.definition).rules().windows
    for name, running in origin.running.items():
        step = windows[name].period_of(running)
        length = (step.end_ms - step.start_ms) / 1_000
        if seconds >= _STEP_SHARE * length:
            raise MoveRefused(
                f"the board cannot be copied within a step of its window {quoted(name)}, which "
                f"lasts {length:,g} s: when the step ended, the copy had taken {seconds:,.0f} s. "
                "Remove the window, move the board, and add the window again; it then begins empty"
            )


def ensure_unchanged(before: Origin, now: Origin) -> None:
    """Raise BoardChanging if something has changed that is not tracked: the definition, the hidden
    members, the closed periods, the running step of a rolling window, or the shown ranking of a
    refreshed one."""
    if _untracked(now) != _untracked(before):
        raise BoardChanging("a period or step has ended, or the board was changed")


def _untracked(origin: Origin) -> tuple[object, ...]:
    closed = {
        window: (each.since_ms, each.closed, each.sealed, each.trimmed)
        for window, each in origin.closing.items()
    }
    return origin.version, origin.hidden, closed, origin.running, origin.shown


def put_pieces(
    target: Servable,
    origin: Origin,
    pieces: Iterator[PieceT],
    proceed: Callable[[], None] = lambda: None,
) -> int:
    """Write pieces to the copy of a board, and return the number of rows. `proceed` is called
    before each share. Raises BoardChanging if a rolling window is at another step than in
    `origin`."""
    rows = 0
    for group in grouped(pieces):
        proceed()
        for piece in group:
            if isinstance(piece, RankingRows):
                rows += piece.size
                if piece.running is not None and piece.running != origin.running[piece.window]:
                    raise BoardChanging("a step ended while the board was copied")
        target.copies.put(origin.board_name, group)
    proceed()
    return rows


def ensure_equal(board: str, source: Servable, target: Servable) -> None:
    """Raise MoveRefused if two stores have different numbers of members of a board."""
    for _ in range(_COMPARISONS):
        own, copied = _counts(source.board_stats(board)), _counts(target.board_stats(board))
        if own == copied:
            return
    raise MoveRefused(f"the copy differs: the store has {own}, the copy {copied}")


def ensure_equal_payouts(board: str, source: Servable, target: Servable) -> None:
    """Raise MoveRefused if two stores have different payouts of a board. O(payouts)."""
    own, copied = _checksum(source, board), _checksum(target, board)
    if own != copied:
        raise MoveRefused(
            f"the copy differs: the store has {own[0]:,} payouts, the copy {copied[0]:,}"
            if own[0] != copied[0]
            else f"the copy differs: some of its {own[0]:,} payouts are not those of the store"
        )


def _checksum(store: Servable, board: str) -> tuple[int, int]:
    """Return the number of payouts of a board, and the sum of their hashes."""
    count = total = 0
    for rows in store.copies.payouts(board):
        count += rows.size
        total += sum([hash((each.is_erased, each.row)) for each in rows.items])
    return count, total


def _counts(stats: BoardStats) -> tuple[object, ...]:
    windows = {each.window: (each.period, each.members) for each in stats.windows}
    return stats.version, windows, stats.remembered, stats.scopes
