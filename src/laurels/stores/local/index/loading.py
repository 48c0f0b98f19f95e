"""Loads a copy of the memory index.

There are two passes. The first reads the contents of the scopes and the names of members (`see`).
Then the structures are created (`open`), and the second pass reads rows into them (`take`). Rows of
structures that no scope has at the end are skipped. `finish` checks that every structure has the
expected size.
"""

from array import array
from collections.abc import Iterator

import msgspec

from laurels.core.ranking_key import RankingKey
from laurels.engine.batch.packing import unpack
from laurels.engine.rolling.rolling import RollingSet
from laurels.engine.roster.roster import Roster, renumber
from laurels.engine.tally.tally import Tally
from laurels.engine.tree.ranked_set import RankedSet
from laurels.engine.tree.restoring import reserve
from laurels.errors import SnapshotDamaged

from .board_store import BoardStore
from .copying import Unit
from .sections import BOARD, DATA, IDS, NAMES, ROWS, Contents, Data, Ids, Names, Rows, Stored

_contents = msgspec.msgpack.Decoder(Contents)
_names = msgspec.msgpack.Decoder(Names)
_rows = msgspec.msgpack.Decoder(Rows)
_data = msgspec.msgpack.Decoder(Data)
_ids = msgspec.msgpack.Decoder(Ids)
_NO_MEMBER = 2**32 - 1
_MAX_EXPECTED = 2**26
"""The maximum number of members for which memory is allocated in advance (half a gigabyte)."""
_OTHER_LANE = -1
"""The lane of member data and event ids; see `lane`."""
_INTEGERS = {0xCC: 1, 0xCD: 2, 0xCE: 4, 0xCF: 8}
"""The sizes of MessagePack integers in bytes, by the type byte that precedes them."""


class Loading:
    """A copy that is loaded into an empty index. The fold opens the boards of the index between the
    two passes."""

    def __init__(self, boards: dict[int, BoardStore], roster: Roster) -> None:
        self._boards = boards
        self._roster = roster
        self._contents: dict[Unit, Contents] = {}
        self._numbers = array("I")
        self._has_same_ids = True
        self._rankings: dict[int, RankedSet] = {}
        self._live: dict[int, RollingSet] = {}
        self._tallies: dict[int, tuple[RollingSet, int]] = {}
        self._sizes: list[tuple[Stored, RankedSet | RollingSet]] = []
        self._expected: dict[int, int] = {}

    seen = frozenset({BOARD, NAMES})

    def lane(self, kind: bytes, begins: bytes) -> int:
        """Return the lane of a section. Sections of one lane are loaded in order; different lanes
        may be loaded concurrently. The lane of rows is the number of their structure, with which
        the section begins."""
        if kind != ROWS or len(begins) < 2:
            return _OTHER_LANE
        width = _INTEGERS.get(begins[1], 0)
        return int.from_bytes(begins[2 : 2 + width] if width else begins[1:2])

    def see(self, kind: bytes, body: bytes) -> None:
        """Process a section in the first pass."""
        if kind == BOARD:
            contents = _contents.decode(body)
            self._contents[contents.number, contents.scope] = contents
        elif kind == NAMES:
            self._name(_names.decode(body))

    def described(self) -> Iterator[tuple[int, bytes]]:
        """Yield, for each board, its number and the fold's description of it."""
        for number, scope in sorted(self._contents):
            described = self._contents[number, scope].described
            if not scope and described is not None:
                yield number, described

    def open(self) -> None:
        """Create the structures. Must be called after all boards were opened in the index."""
        for (number, scope), contents in self._contents.items():
            if contents.described is None or number not in self._boards:
                continue
            store = self._boards[number]
            for window, running in contents.running.items():
                self._open_rolling(store, scope, window, running)
            for stored in contents.rankings:
                self._open_ranking(store, stored)
            for stored in contents.tallies:
                rolling = store.parts[scope].rolling[stored.key.window]
                self._tallies[stored.structure] = (rolling, stored.key.instance)
                self._sizes.append((stored, rolling))

    def take(self, kind: bytes, body: bytes) -> None:
        """Process a section in the second pass."""
        if kind == ROWS:
            self._put(_rows.decode(body))
        elif kind == IDS:
            self._remember(_ids.decode(body))
        elif kind == DATA:
            self._load_data(_data.decode(body))

    def finish(self) -> None:
        """Raise SnapshotDamaged if a structure does not have the expected size."""
        for rolling in self._live.values():
            rolling.prepare()
        for stored, structure in self._sizes:
            store: RankedSet | Tally | None
            if isinstance(structure, RankedSet):
                store = structure
            else:
                store = structure.tally(stored.key.instance)
            size = 0 if store is None else len(store)
            if size != stored.size:
                raise SnapshotDamaged(f"expected {stored.size} members in {stored.key}, got {size}")

    def _name(self, names: Names) -> None:
        ids = array("I", names.ids)
        most = max(ids, default=-1) + 1
        if most > len(self._numbers):
            self._numbers.extend(array("I", [_NO_MEMBER]) * (most - len(self._numbers)))
        if not len(self._roster):
            reserve(self._roster, self._least_members())
        numbers = self._roster.intern(names.arena, names.lengths)
        self._has_same_ids = self._has_same_ids and ids == numbers
        if ids and most - ids[0] == len(ids):  # ids ascend, so they are consecutive
            self._numbers[ids[0] : most] = numbers
            return
        for id, number in zip(ids, numbers, strict=True):
            self._numbers[id] = number

    def _least_members(self) -> int:
        """Return the number of members in the largest ranking of the boards seen so far."""
        rankings = (each.rankings for each in self._contents.values())
        size = max((stored.size for each in rankings for stored in each), default=0)
        return max(0, min(size, _MAX_EXPECTED))

    def _open_rolling(self, store: BoardStore, scope: str, window: str, running: int) -> None:
        steps = store.rules.windows[window].steps
        assert steps, "only windows that count by steps have a running step"
        store.open_rolling(scope, window, steps, running, self._roster)

    def _open_ranking(self, store: BoardStore, stored: Stored) -> None:
        key = stored.key
        self._expected[stored.structure] = stored.size
        rolling = store.open_part(key.scope).rolling.get(key.window)
        if rolling is not None and (rolling.deferred or rolling.running == key.instance):
            self._live[stored.structure] = rolling
            self._sizes.append((stored, rolling.live))
            return
        ranking = store.open_ranking(RankingKey(*key), self._roster)
        self._rankings[stored.structure] = ranking
        self._sizes.append((stored, ranking))

    def _put(self, rows: Rows) -> None:
        number = rows.structure
        if (
            number not in self._rankings
            and number not in self._live
            and (number not in self._tallies)
        ):
            return
        ids = array("I", rows.ids)
        if not self._has_same_ids:
            ids = renumber(ids, self._numbers)
        if not rows.columns:
            self._discard(number, ids)
            return
        words = [unpack(column, len(ids)) for column in rows.columns]
        if number in self._tallies:
            rolling, step = self._tallies[number]
            rolling.load(step, ids, words)
            return
        ranking = self._ranking(number)
        ranking.put(ids, words)
        if (size := self._expected.pop(number, 0)) > len(ranking):
            reserve(ranking, size)

    def _ranking(self, number: int) -> RankedSet:
        """Return a ranking. For a rolling window this is the live ranking; `finish` derives the
        prepared ranking from it."""
        rolling = self._live.get(number)
        return self._rankings[number] if rolling is None else rolling.live

    def _discard(self, number: int, ids: "array[int]") -> None:
        if number not in self._tallies:
            self._ranking(number).discard(ids)
            return
        rolling, step = self._tallies[number]
        if (tally := rolling.tally(step)) is not None:
            tally.discard(ids)

    def _remember(self, ids: Ids) -> None:
        contents = self._contents.get((ids.board, ""))
        if contents is None or contents.remembers_from_ms is None:
            return
        remembered = self._boards[ids.board].remembered
        for accepted_ms, keys in ids.groups:
            if accepted_ms >= contents.remembers_from_ms:
                for key in keys:
                    remembered.restore(key, accepted_ms)

    def _load_data(self, data: Data) -> None:
        if (store := self._boards.get(data.board)) is not None:
            for member, value in data.items:
                if value is None:
                    store.data.pop(member, None)
                else:
                    store.data[member] = value
