"""Reads a whole board from the memory index as pieces, and restores a board from pieces."""

from array import array
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from operator import itemgetter

from laurels.core.contents import (
    PIECE_ROWS,
    ChangedIndexPiece,
    ClearedRows,
    EventIds,
    IndexPiece,
    MemberValues,
    RankingRows,
    rows_of,
)
from laurels.core.ranking_key import RankingKey
from laurels.engine.rolling.rolling import RollingSet
from laurels.engine.roster.roster import Roster
from laurels.engine.tally.tally import Tally
from laurels.engine.tree.ranked_set import RankedSet
from laurels.model.labels import ALL
from laurels.timeline.instants import MAX_MS, MIN_MS

from .board_store import BoardStore, ScopeStore
from .copying import CHUNK, SCATTERED
from .sections import Structure


def shared_pieces(store: BoardStore) -> Iterator[IndexPiece]:
    """Yield the data of a board that belongs to no scope: member data and remembered ids."""
    members = sorted(store.data)
    for first in range(0, len(members), PIECE_ROWS):
        yield MemberValues([(each, store.data[each]) for each in members[first:][:PIECE_ROWS]])
    ids = store.remembered.items()
    for first in range(0, len(ids), PIECE_ROWS):
        groups: list[tuple[int, list[bytes]]] = []
        for key, accepted_ms in ids[first : first + PIECE_ROWS]:
            if not groups or groups[-1][0] != accepted_ms:
                groups.append((accepted_ms, []))
            groups[-1][1].append(key)
        yield EventIds(groups)


def scope_pieces(scope: str, part: ScopeStore, roster: Roster) -> Iterator[IndexPiece]:
    """Yield the rows of a scope: tallies in the order of their steps, then the rankings."""
    for window, rolling in sorted(part.rolling.items()):
        running = rolling.running
        width = _cell_width(rolling)
        for step in range(rolling.leaving, running + 1):
            tally = rolling.tally(step)
            for ids, words in () if tally is None else _cells(tally):
                cells = words[:width]
                yield _rows(roster, (window, step, scope), running, ids, cells, is_tally=True)
        yield from _entries(roster, (window, running, scope), running, rolling.live)
    for (window, instance), ranking in _periods(part):
        yield from _entries(roster, (window, instance, scope), None, ranking)


def _periods(part: ScopeStore) -> list[tuple[tuple[str, int], RankedSet]]:
    """Return the rankings of the periods of a scope, by window and instance. Copies of rolling
    windows at boundaries are left out, since boards with an archive are not copied."""
    return sorted(
        [each for each in part.rankings.items() if not each[1].stepped], key=itemgetter(0)
    )


def scanned_shared_pieces(store: BoardStore) -> Iterator[IndexPiece]:
    """Yield the data of a board that belongs to no scope, while it changes."""
    members = sorted(store.data)
    for first in range(0, len(members), PIECE_ROWS):
        some = members[first : first + PIECE_ROWS]
        yield MemberValues([(each, store.data[each]) for each in some if each in store.data])
    yield from id_pieces(store.remembered.between(MIN_MS, MAX_MS))


def scanned_scope_pieces(scope: str, part: ScopeStore, roster: Roster) -> Iterator[IndexPiece]:
    """Yield the rows of a scope while they change. A ranking is read in its own order, and each
    read continues after the key of the last entry read. A tally is read in the order of its hash.
    So an entry that does not change is never left out."""
    for window, rolling in sorted(part.rolling.items()):
        running, width = rolling.running, _cell_width(rolling)
        for step in range(rolling.leaving, running + 1):
            tally = rolling.tally(step)
            for ids, words in () if tally is None else _cells(tally):
                name = (window, step, scope)
                yield _rows(roster, name, running, ids, words[:width], is_tally=True)
        yield from _scanned_entries(roster, (window, running, scope), running, rolling.live)
    for (window, instance), ranking in _periods(part):
        yield from _scanned_entries(roster, (window, instance, scope), None, ranking)


def _scanned_entries(
    roster: Roster, name: tuple[str, int, str], running: int | None, ranking: RankedSet
) -> Iterator[RankingRows]:
    start = 0
    while start < len(ranking):
        ids, words = ranking.slice(start, start + PIECE_ROWS)
        last = roster.name(ids[-1]).encode()
        key = [column[-1] for column in words[: ranking.ordered]]
        yield _rows(roster, name, running, ids, words, is_tally=False)
        start = ranking.bound(key, last, right=True)


def chunks(ids: Iterable[int]) -> Iterator["array[int]"]:
    """Yield members in chunks whose rows can be looked up in about a millisecond."""
    rest = iter(ids)
    while chunk := array("I", islice(rest, CHUNK // SCATTERED)):
        yield chunk


def unranked_data(
    store: BoardStore, roster: Roster, members: Iterable[bytes]
) -> Iterator[ChangedIndexPiece]:
    """Yield the current data of those of `members` that are in no ranking of any board."""
    some = [member for member in members if roster.find(member) < 0]
    if some:
        yield ClearedRows(ALL, some)
        yield from _values(store, some)


def pieces_of_members(
    store: BoardStore, part: ScopeStore | None, roster: Roster, scope: str, ids: "array[int]"
) -> Iterator[ChangedIndexPiece]:
    """Yield the current rows of some members in a scope; in the scope of all events, also their
    data."""
    members = [member.encode() for member in roster.names(ids)]
    yield ClearedRows(scope, members)
    for window, rolling in () if part is None else sorted(part.rolling.items()):
        running, width = rolling.running, _cell_width(rolling)
        for step in range(rolling.leaving, running + 1):
            if (tally := rolling.tally(step)) is not None:
                name = (window, step, scope)
                yield from _rows_of(roster, name, running, tally, ids, width=width)
        yield from _rows_of(roster, (window, running, scope), running, rolling.live, ids)
    for (window, instance), ranking in () if part is None else _periods(part):
        yield from _rows_of(roster, (window, instance, scope), None, ranking, ids)
    if scope == ALL:
        yield from _values(store, members)


def _rows_of(
    roster: Roster,
    name: tuple[str, int, str],
    running: int | None,
    structure: Structure,
    ids: "array[int]",
    *,
    width: int | None = None,
) -> Iterator[RankingRows]:
    """Yield the rows that members have in a ranking or, with `width`, in a tally."""
    present, words = structure.words(ids)
    places = [i for i, is_there in enumerate(present) if is_there]
    if places:
        some = array("I", [ids[i] for i in places])
        columns = [array("q", [column[i] for i in places]) for column in words[:width]]
        yield _rows(roster, name, running, some, columns, is_tally=width is not None)


def _values(store: BoardStore, members: Sequence[bytes]) -> Iterator[MemberValues]:
    if data := [(member, store.data[member]) for member in members if member in store.data]:
        yield MemberValues(data)


def id_pieces(groups: list[tuple[int, list[bytes]]]) -> Iterator[EventIds]:
    """Yield event ids in pieces."""
    part: list[tuple[int, list[bytes]]] = []
    count = 0
    for group in groups:
        part.append(group)
        count += len(group[1])
        if count >= PIECE_ROWS:
            yield EventIds(part)
            part, count = [], 0
    if part:
        yield EventIds(part)


def _cell_width(rolling: RollingSet) -> int:
    """Return the number of words of a cell, without the links to other candidates. Links are not
    copied, as they can be computed."""
    return rolling.live.ordered + rolling.live.stamped


def link_candidates(rolling: RollingSet) -> list[Structure]:
    """Write the links between the candidates of each member into their cells: the distances in
    steps to the previous and to the next candidate. Return the tallies that were written."""
    steps = range(rolling.leaving, rolling.running + 1)
    tallies = [(step, tally) for step in steps if (tally := rolling.tally(step)) is not None]
    for place, ordered in ((-2, tallies), (-1, tallies[::-1])):
        nearest: dict[int, int] = {}
        for step, tally in ordered:
            for ids, words in list(_cells(tally)):
                distances = [abs(step - nearest.get(id, step)) for id in ids]
                words[place] = array("q", distances)
                tally.put(ids, words)
                nearest.update(dict.fromkeys(ids, step))
    return [tally for _, tally in tallies]


def _cells(tally: Tally) -> Iterator[tuple["array[int]", list["array[int]"]]]:
    place = 0
    while place < 2**32:
        ids, words, place = tally.scan(place, PIECE_ROWS)
        if ids:
            yield ids, words


def _entries(
    roster: Roster, name: tuple[str, int, str], running: int | None, ranking: RankedSet
) -> Iterator[RankingRows]:
    for start in range(0, len(ranking), PIECE_ROWS):
        ids, words = ranking.slice(start, start + PIECE_ROWS)
        if ids:
            yield _rows(roster, name, running, ids, words, is_tally=False)


def _rows(
    roster: Roster,
    name: tuple[str, int, str],
    running: int | None,
    ids: "array[int]",
    words: list["array[int]"],
    *,
    is_tally: bool,
) -> RankingRows:
    members = [member.encode() for member in roster.names(ids)]
    return rows_of(*name, running, members, words, is_tally=is_tally)


def restore_rows(
    board: int, store: BoardStore, roster: Roster, rows: RankingRows
) -> tuple["array[int]", Structure]:
    """Write rows into a ranking or a tally, which is created if it is missing. Return the ids of
    the members, and the structure."""
    ids = roster.intern(rows.members, rows.lengths)
    words = rows.words()
    if rows.running is None:
        ranking = store.open_ranking(
            RankingKey(board, rows.window, rows.instance, rows.scope), roster
        )
        ranking.put(ids, words)
        return ids, ranking
    steps = store.rules.windows[rows.window].steps
    assert steps, "only windows that count by steps have a running step"
    rolling = store.open_rolling(rows.scope, rows.window, steps, rows.running, roster)
    if not rows.is_tally:
        rolling.live.put(ids, words)
        return ids, rolling.live
    if not rolling.deferred and store.rules.best:
        words += [array("q", bytes(8 * rows.size))] * 2
    rolling.load(rows.instance, ids, words)
    tally = rolling.tally(rows.instance)
    assert tally is not None, "the step counts, as `load` has just opened it"
    return ids, tally
