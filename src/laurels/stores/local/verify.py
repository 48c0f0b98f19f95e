"""Compare two folds of the same log, down to the last entry."""

from collections.abc import Iterator

from laurels.core.board_state import BoardState
from laurels.core.fold import Fold
from laurels.core.ranking_key import RankingKey
from laurels.core.stats import CheckReport
from laurels.errors import CheckFailed
from laurels.model.labels import ALL

_CHUNK = 10_000


def compare(live: Fold, other: Fold) -> CheckReport:
    """Compare two folds completely. CheckFailed names the first difference."""
    _same("offset", live.offset, other.offset)
    _same("time", live.now_ms, other.now_ms)
    _same("board names", sorted(live.boards), sorted(other.boards))
    rankings = entries = 0
    for name, state in live.boards.items():
        _same_board(live, other, state, other.boards[name])
        for scope in _scopes(live, state.number):
            keys = sorted(live.index.keys(state.number, scope))
            mirrored = sorted(other.index.keys(state.number, scope))
            _same(f"rankings of {name!r} {scope}", keys, mirrored)
            rankings += len(keys)
            entries += sum(_same_ranking(live, other, key) for key in keys)
            _same_tallies(live, other, name, state.number, scope)
        _same(
            f"scopes of {name!r}",
            *[sum(1 for _ in _scopes(f, state.number)) for f in (live, other)],
        )
    return CheckReport(len(live.boards), rankings, entries, live.offset)


def _same_board(live: Fold, other: Fold, state: BoardState, mirror: BoardState) -> None:
    name = state.board.name
    compared = ("number", "board", "version", "created_ms", "floors", "positions", "refreshed")
    for what in compared:
        _same(f"{what} of {name!r}", getattr(state, what), getattr(mirror, what))
    number = state.number
    _same(f"ids of {name!r}", live.index.ids(number), other.index.ids(number))
    _same(f"member data of {name!r}", live.index.all_data(number), other.index.all_data(number))


def _same_ranking(live: Fold, other: Fold, key: RankingKey) -> int:
    size = live.index.size(key)
    _same(f"size of {key}", size, other.index.size(key))
    for start in range(0, size, _CHUNK):
        one = live.index.slice(key, start, start + _CHUNK)
        _same(f"{key} from position {start}", one, other.index.slice(key, start, start + _CHUNK))
    return size


def _scopes(fold: Fold, number: int) -> Iterator[str]:
    yield ALL
    place: tuple[str, str] | None = None
    while found := fold.index.next_scopes(number, place, _CHUNK):
        yield from [scope for _, scope in found]
        place = found[-1]


def _same_tallies(live: Fold, other: Fold, name: str, number: int, scope: str) -> None:
    keys = sorted(live.index.tallies(number, scope))
    _same(f"tallies of {name!r} {scope}", keys, sorted(other.index.tallies(number, scope)))
    for key in keys:
        _same(f"the tally {key}", live.index.digest(key), other.index.digest(key))


def _same(what: str, one: object, other: object) -> None:
    if one != other:
        differs = f"the index has {str(one)[:200]}, the log says {str(other)[:200]}"
        raise CheckFailed(f"{what}: {differs}")
