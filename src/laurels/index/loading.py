"""A copy of the memory index taken in again.

The sections come twice: first what boards have in the end and how members are called (`see`), then,
into structures made for them (`open`), the rows (`take`). Rows of structures that no board has in
the end are passed over. `finish` asserts that every structure holds as many as was said.
"""

from array import array
from collections.abc import Iterator

import msgspec

from laurels.engine.intake import unpack
from laurels.engine.ranked_set import RankedSet
from laurels.engine.rolling import RollingSet
from laurels.engine.roster import Roster, renumber
from laurels.engine.tally import Tally
from laurels.errors import SnapshotDamaged
from laurels.plan import RankingKey
from laurels.windows import Rolling

from .copying import BOARD, DATA, IDS, NAMES, ROWS, Contents, Data, Ids, Names, Rows, Stored
from .held import Held

_contents = msgspec.msgpack.Decoder(Contents)
_names = msgspec.msgpack.Decoder(Names)
_rows = msgspec.msgpack.Decoder(Rows)
_data = msgspec.msgpack.Decoder(Data)
_ids = msgspec.msgpack.Decoder(Ids)
_NOBODY = 2**32 - 1


class Loading:
    """A copy on its way into an empty index, whose boards the fold opens between the passes."""

    def __init__(self, boards: dict[int, Held], roster: Roster) -> None:
        self._boards = boards
        self._roster = roster
        self._contents: dict[int, Contents] = {}
        self._numbers = array("I")
        self._rankings: dict[int, RankedSet] = {}
        self._live: dict[int, RollingSet] = {}
        self._tallies: dict[int, tuple[RollingSet, int]] = {}
        self._sizes: list[tuple[Stored, RankedSet | RollingSet]] = []

    def see(self, kind: bytes, body: bytes) -> None:
        """The first pass over the sections."""
        if kind == BOARD:
            contents = _contents.decode(body)
            self._contents[contents.number] = contents
        elif kind == NAMES:
            self._name(_names.decode(body))

    def described(self) -> Iterator[tuple[int, bytes]]:
        """The boards there are, by number, with what the fold said of each."""
        for number in sorted(self._contents):
            described = self._contents[number].described
            if described is not None:
                yield number, described

    def open(self) -> None:
        """Makes the structures, now that all boards are known to the index."""
        for number, _ in self.described():
            contents, held = self._contents[number], self._boards[number]
            for window, running in contents.running.items():
                self._open_rolling(held, window, running)
            for stored in contents.rankings:
                self._open_ranking(held, stored)
            for stored in contents.tallies:
                rolling = held.rolling[stored.key.window]
                self._tallies[stored.structure] = (rolling, stored.key.instance)
                self._sizes.append((stored, rolling))

    def take(self, kind: bytes, body: bytes) -> None:
        """The second pass."""
        if kind == ROWS:
            self._put(_rows.decode(body))
        elif kind == IDS:
            self._remember(_ids.decode(body))
        elif kind == DATA:
            self._give(_data.decode(body))

    def finish(self) -> None:
        """Raises SnapshotDamaged where a structure does not hold what it should."""
        for stored, structure in self._sizes:
            held: RankedSet | Tally | None
            if isinstance(structure, RankedSet):
                held = structure
            else:
                held = structure.tally(stored.key.instance)
            size = 0 if held is None else len(held)
            if size != stored.size:
                raise SnapshotDamaged(f"{stored.key} has {size} members, not {stored.size}")

    def _name(self, names: Names) -> None:
        ids = array("I", names.ids)
        most = max(ids, default=-1) + 1
        if most > len(self._numbers):
            self._numbers.extend(array("I", [_NOBODY]) * (most - len(self._numbers)))
        numbers = self._roster.intern(names.arena, names.lengths)
        if ids and most - ids[0] == len(ids):  # no gaps, as ids ascend
            self._numbers[ids[0] : most] = numbers
            return
        for id, number in zip(ids, numbers, strict=True):
            self._numbers[id] = number

    def _open_rolling(self, held: Held, window: str, running: int) -> None:
        rule = held.rules.windows[window]
        assert isinstance(rule, Rolling), "only rolling windows have a running step"
        held.open_rolling(window, rule.steps, running, self._roster)

    def _open_ranking(self, held: Held, stored: Stored) -> None:
        key = stored.key
        rolling = held.rolling.get(key.window)
        if rolling is not None:
            self._live[stored.structure] = rolling
            self._sizes.append((stored, rolling.live))
            return
        ranking = held.open_ranking(RankingKey(*key), self._roster)
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
        ids = renumber(array("I", rows.ids), self._numbers)
        if not rows.columns:
            self._discard(number, ids)
            return
        words = [unpack(column, len(ids)) for column in rows.columns]
        if number in self._rankings:
            self._rankings[number].put(ids, words)
        elif number in self._live:
            self._live[number].load_live(ids, words)
        else:
            rolling, step = self._tallies[number]
            rolling.load(step, ids, words)

    def _discard(self, number: int, ids: "array[int]") -> None:
        if number in self._rankings:
            self._rankings[number].discard(ids)
        elif number in self._live:
            self._live[number].live.discard(ids)
            self._live[number].prepared.discard(ids)
        else:
            rolling, step = self._tallies[number]
            if (tally := rolling.tally(step)) is not None:
                tally.discard(ids)

    def _remember(self, ids: Ids) -> None:
        contents = self._contents.get(ids.board)
        if contents is None or contents.remembers_from_ms is None:
            return
        remembered = self._boards[ids.board].remembered
        for accepted_ms, keys in ids.groups:
            if accepted_ms >= contents.remembers_from_ms:
                for key in keys:
                    remembered.add(key, accepted_ms)

    def _give(self, data: Data) -> None:
        if (held := self._boards.get(data.board)) is not None:
            for member, value in data.items:
                if value is None:
                    held.data.pop(member, None)
                else:
                    held.data[member] = value
