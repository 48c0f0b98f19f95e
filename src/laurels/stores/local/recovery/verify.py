"""Compares two folds of the same log completely, including every entry of every ranking."""

from collections.abc import Iterator

from laurels.core.board_state import BoardState
from laurels.core.fold import Fold
from laurels.core.ranking_key import RankingKey
from laurels.core.stats import CheckReport
from laurels.errors import CheckFailed
from laurels.model.labels import ALL

_CHUNK = 10_000


def compare(live: Fold, rebuilt: Fold) -> CheckReport:
    """Compare two folds completely. Raises CheckFailed, which names the first difference."""
    _ensure_equal("offset", live.offset, rebuilt.offset)
    _ensure_equal("time", live.now_ms, rebuilt.now_ms)
    _ensure_equal("board names", sorted(live.boards), sorted(rebuilt.boards))
    rankings = entries = 0
    for name, state in live.boards.items():
        _compare_board(live, rebuilt, state, rebuilt.boards[name])
        for scope in _scopes(live, state.number):
            keys = sorted(live.index.keys(state.number, scope))
            rebuilt_keys = sorted(rebuilt.index.keys(state.number, scope))
            _ensure_equal(f"rankings of {name!r} {scope}", keys, rebuilt_keys)
            rankings += len(keys)
            entries += sum(_compare_ranking(live, rebuilt, key) for key in keys)
            _compare_tallies(live, rebuilt, name, state.number, scope)
        _ensure_equal(
            f"scopes of {name!r}",
            *[sum(1 for _ in _scopes(f, state.number)) for f in (live, rebuilt)],
        )
    return CheckReport(len(live.boards), rankings, entries, live.offset)


def _compare_board(live: Fold, rebuilt: Fold, state: BoardState, rebuilt_state: BoardState) -> None:
    name = state.board.name
    compared = ("number", "board", "version", "created_ms", "floors", "positions", "refreshed")
    for field in compared:
        _ensure_equal(f"{field} of {name!r}", getattr(state, field), getattr(rebuilt_state, field))
    number = state.number
    _ensure_equal(f"ids of {name!r}", live.index.ids(number), rebuilt.index.ids(number))
    _ensure_equal(
        f"member data of {name!r}", live.index.all_data(number), rebuilt.index.all_data(number)
    )


def _compare_ranking(live: Fold, rebuilt: Fold, key: RankingKey) -> int:
    size = live.index.size(key)
    _ensure_equal(f"size of {key}", size, rebuilt.index.size(key))
    for start in range(0, size, _CHUNK):
        entries = live.index.slice(key, start, start + _CHUNK)
        _ensure_equal(
            f"{key} from position {start}",
            entries,
            rebuilt.index.slice(key, start, start + _CHUNK),
        )
    return size


def _scopes(fold: Fold, number: int) -> Iterator[str]:
    yield ALL
    place: tuple[str, str] | None = None
    while places := fold.index.next_scopes(number, place, _CHUNK):
        yield from [scope for _, scope in places]
        place = places[-1]


def _compare_tallies(live: Fold, rebuilt: Fold, name: str, number: int, scope: str) -> None:
    keys = sorted(live.index.tallies(number, scope))
    _ensure_equal(
        f"tallies of {name!r} {scope}", keys, sorted(rebuilt.index.tallies(number, scope))
    )
    for key in keys:
        _ensure_equal(f"the tally {key}", live.index.digest(key), rebuilt.index.digest(key))


def _ensure_equal(name: str, live: object, rebuilt: object) -> None:
    if live != rebuilt:
        differs = f"the index has {str(live)[:200]}, a fold of the log has {str(rebuilt)[:200]}"
        raise CheckFailed(f"{name}: {differs}")
