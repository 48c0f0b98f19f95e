"""Changes: what each accepted event, and each other write, did to one member of a board. Pure.

A store keeps changes in *blocks*: one block for each record that changed a board, in columns, as it
was counted. A block is turned into changes when somebody reads it, so that keeping it costs little.
Blocks of a shard are numbered from 1 without a gap, and each has the random tag of its record. A
cursor names the last change read, with that tag, so a store that lost its end and went on is
noticed.
"""

from array import array
from collections.abc import Iterable, Iterator, Sequence
from operator import neg
from typing import Any, Literal, Protocol, SupportsIndex, overload

import msgspec
from msgspec import Struct, field
from msgspec.structs import replace

from laurels.engine.batch.packing import behind, cut, pack, unpack
from laurels.errors import (
    ChangesExpired,
    ChangesNotKept,
    CursorDiverged,
    InvalidCursor,
    InvalidLimit,
    LogDamaged,
)
from laurels.model.answer import Answer
from laurels.model.event import Batch
from laurels.model.labels import Values, labels_of
from laurels.model.rules import Rules
from laurels.model.score import Number, Score, score_of, to_value, units_of
from laurels.model.validation import integer_within, safe_repr

from .board_state import BoardState
from .index import COUNTED, Outcomes
from .plan import Plan
from .record import Position

NOW = "now"
"""The cursor that means the end of what has changed so far."""
MAX_CHANGES = 10_000
"""The most changes of one answer."""

ChangeKind = Literal[
    "event", "set", "remove", "data", "position", "create", "change", "initial", "initial_end"
]
Delta = Number | tuple[Number | None, ...]

_COUNTED = bytes(code in COUNTED for code in range(256))


class ChangedRanking(Answer, frozen=True, omit_defaults=True):
    """A member's entry in one ranking after a change; without a score it is not in it any more.

    `labels` are those of the scope, None on a board without scopes. `reached_ms` decides among
    equal scores, where arrival does; `last_ms` is the time that `last` columns go by.
    """

    window: str
    period: str | None = None
    labels: dict[str, str] | None = None
    score: Score | None = None
    reached_ms: int | None = None
    last_ms: int | None = None


class Change(Answer, frozen=True):
    """What one accepted event, or another write, did to a board.

    `id` is the same however often the change is read: board uid / shard / sequence / tag / number.
    `delta` is what was added to the columns with op sum, None for the others. `score` is that of
    the window `all` over all events, None without it. `rankings` are those in `all` and calendar
    windows in which the event counted; rankings of other windows change with time and are not
    listed. `data` is what a member carries now (`data`), the position of a source (`position`), or
    the definition of the board (`create`, `change`).
    """

    id: str
    board: str
    kind: ChangeKind
    at_ms: int
    member: str | None = None
    event_id: str | None = None
    labels: dict[str, str] = field(default_factory=dict)
    delta: Delta | None = None
    score: Score | None = None
    rankings: list[ChangedRanking] = field(default_factory=list)
    data: Any = None


class ChangePage(Answer, frozen=True):
    """Changes in their order, and the cursor behind the last; `more` says whether others follow it
    already. A sequence of its changes."""

    changes: list[Change]
    cursor: str
    more: bool = False

    def __len__(self) -> int:
        return len(self.changes)

    def __iter__(self) -> Iterator[Change]:
        return iter(self.changes)

    @overload
    def __getitem__(self, at: SupportsIndex) -> Change: ...
    @overload
    def __getitem__(self, at: slice) -> list[Change]: ...
    @overload
    def __getitem__(self, at: str) -> Any: ...
    def __getitem__(self, at: SupportsIndex | slice | str) -> Any:
        return super().__getitem__(at) if isinstance(at, str) else self.changes[at]


# Cursors


class BlockPlace(Struct, frozen=True, array_like=True, order=True):
    """A place in the changes of one shard: behind so many changes of a block. `sequence` 0 is the
    beginning, and `number` -1 the end of the block."""

    sequence: int
    tag: int = 0
    number: int = -1


class ChangeCursor(Struct, frozen=True, array_like=True):
    """Where a reader of a board's changes is, in each of its shards."""

    uid: str
    places: tuple[BlockPlace, ...]

    def encode(self) -> str:
        """Return the cursor as text without characters that need to be escaped anywhere."""
        parts = [f"{p.sequence}-{p.tag:x}-{p.number}" for p in self.places]
        return "~".join([self.uid, *parts]).replace("--1", "-e")


def decode_cursor(text: object) -> ChangeCursor:
    """Return the cursor that a caller hands back; InvalidCursor for anything else."""
    error = InvalidCursor(f"expected the cursor of a page of changes, got {safe_repr(text)}")
    if not isinstance(text, str) or not text.isascii() or len(text) > 8_000:
        raise error
    uid, *parts = text.split("~")
    try:
        split = [part.split("-") for part in parts]
        places = tuple(
            [BlockPlace(int(s), int(tag, 16), -1 if n == "e" else int(n)) for s, tag, n in split]
        )
    except ValueError:
        raise error from None
    if not uid or not places or any(not _is_sound(place) for place in places):
        raise error
    return ChangeCursor(uid, places)


def _is_sound(place: BlockPlace) -> bool:
    return 0 <= place.sequence < 2**62 and 0 <= place.tag < 2**62 and -1 <= place.number < 2**31


def checked_limit(limit: object) -> int:
    """Return how many changes a caller asks for; InvalidLimit for what is no such number."""
    count = integer_within(limit, 1, MAX_CHANGES)
    if count is None:
        raise InvalidLimit(
            f"expected an integer from 1 to {MAX_CHANGES:,} for limit, got {safe_repr(limit)}"
        )
    return count


# Blocks


class TracedRanking(Struct, frozen=True, array_like=True):
    """What a block's events did in one window and kind of scope.

    `route` has for each event the index of the ranking in `targets` it counted in, below 0 for
    none; or the one that holds for all. `words` are the entries after each event, column by column.
    """

    route: int | bytes
    words: tuple[bytes, ...]


class EventBlock(Struct, frozen=True, array_like=True, tag="events"):
    """The changes of one batch of events, column by column; those that were refused are left out.

    `targets` are the rankings: window, instance and scope. `added` is what each event added to the
    columns; without it, the values themselves.
    """

    sequence: int
    tag: int
    now_ms: int
    size: int
    members: bytes
    lengths: bytes
    added: tuple[bytes, ...]
    ages: bytes | None
    ids: list[bytes | None] | None
    absolute: bool
    labels: tuple[tuple[str, ...], tuple[Values, ...], bytes] | None
    targets: tuple[tuple[str, int, str], ...]
    rankings: tuple[TracedRanking, ...]
    position: tuple[str, str] | None = None

    @property
    def count(self) -> int:
        """How many changes the block stands for."""
        return self.size + (self.position is not None)


class WriteBlock(Struct, frozen=True, array_like=True, tag="write"):
    """The one change of a write that is no event."""

    sequence: int
    tag: int
    now_ms: int
    kind: ChangeKind
    member: bytes | None = None
    data: bytes | None = None

    @property
    def count(self) -> int:
        """How many changes the block stands for."""
        return 1


Block = EventBlock | WriteBlock


class TaggedRecord(Protocol):
    """A log record of a board that has a tag."""

    @property
    def now_ms(self) -> int: ...
    @property
    def tag(self) -> int: ...


def write_block(
    record: TaggedRecord,
    kind: ChangeKind,
    member: bytes | None = None,
    data: bytes | None = None,
    sequence: int = 0,
) -> WriteBlock:
    """Return the block of a record that is no batch of events."""
    return WriteBlock(sequence, record.tag, record.now_ms, kind, member, data)


def position_block(record: Position, sequence: int = 0) -> WriteBlock:
    """Return the block of a position that no event came with."""
    source, position = record.position
    noted = msgspec.json.encode({"source": source, "position": position})
    return write_block(record, "position", None, noted, sequence)


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(list[Block])


def encode_blocks(blocks: Sequence[Block]) -> bytes:
    """Return blocks as bytes."""
    return _encoder.encode(blocks)


def decode_blocks(body: bytes) -> list[Block]:
    """Return the blocks that bytes stand for; LogDamaged where they cannot be read."""
    try:
        return _decoder.decode(body)
    except msgspec.MsgspecError as error:
        raise LogDamaged(f"kept changes cannot be read: {error}") from error


class CountedBatch(Struct, frozen=True):
    """A batch as it was counted: what a block is made of, once somebody needs it."""

    rules: Rules
    sequence: int
    batch: Batch
    plan: Plan
    outcomes: Outcomes

    @property
    def now_ms(self) -> int:
        return self.batch.now_ms

    @property
    def tag(self) -> int:
        return self.batch.tag

    @property
    def count(self) -> int:
        """How many changes the block has."""
        return self.outcomes.counted + (self.batch.position is not None)

    def block(self) -> EventBlock:
        """Return the block of the events that counted. O(size)."""
        begun = begin_block(self.rules, self.batch, self.plan)
        trace = self.outcomes.trace
        if trace is None:  # no event counted, and only the position changed
            return replace(_taken(begun, []), sequence=self.sequence, tag=self.tag)
        words = [columns for _, columns in trace.rankings]
        return complete_block(
            self.rules, begun, self.sequence, self.tag, self.outcomes.codes, words, trace.added
        )


def begin_block(rules: Rules, batch: Batch, plan: Plan) -> EventBlock:
    """Return the block of a batch as far as it is known before the batch is counted: with all its
    events, and without their entries."""
    return EventBlock(
        0,
        0,
        batch.now_ms,
        batch.size,
        batch.members,
        bytes(batch.lengths),
        tuple([pack(column) for column in batch.values]),
        None if batch.ats is None else pack(behind(batch.now_ms, batch.ats)),
        batch.ids,
        batch.absolute,
        None
        if batch.labels is None
        else (batch.labels.names, batch.labels.groups, pack(batch.labels.each)),
        tuple([(key.window, key.instance, key.scope) for key, _ in plan.targets]),
        tuple([TracedRanking(_packed_route(plan.routes[place]), ()) for place in rules.recorded]),
        batch.position,
    )


def complete_block(
    rules: Rules,
    begun: EventBlock,
    sequence: int,
    tag: int,
    codes: bytes | bytearray,
    words: Sequence[Sequence["array[int]"]],
    added: Sequence["array[int]"] | None,
) -> EventBlock:
    """Return the block of the events that counted, by their outcomes and their entries after them,
    column by column for each ranking. `added` is what absolute events added, as words."""
    if added is not None:
        signs = [column.sign for column in rules.columns]
        plain = zip(added, signs, strict=True)
        units = [column if s > 0 else array("q", map(neg, column)) for column, s in plain]
        begun = replace(begun, added=tuple(map(pack, units)))
    rankings = tuple(
        [
            TracedRanking(ranking.route, tuple(map(pack, columns)))
            for ranking, columns in zip(begun.rankings, words, strict=True)
        ]
    )
    whole = replace(begun, sequence=sequence, tag=tag, rankings=rankings)
    counted = codes.translate(_COUNTED)
    if counted.count(1) == begun.size:
        return whole
    return _taken(whole, [i for i, is_counted in enumerate(counted) if is_counted])


def _taken(block: EventBlock, kept: Sequence[int]) -> EventBlock:
    """Return a block with some of its events."""
    size, members = block.size, cut(block.members, block.lengths)

    def take(column: bytes) -> bytes:
        values = unpack(column, size)
        return pack(array("q", [values[i] for i in kept]))

    return replace(
        block,
        size=len(kept),
        members=b"".join([members[i] for i in kept]),
        lengths=bytes([block.lengths[i] for i in kept]),
        added=tuple(map(take, block.added)),
        ages=None if block.ages is None else take(block.ages),
        ids=None if block.ids is None else [block.ids[i] for i in kept],
        labels=None
        if block.labels is None
        else (block.labels[0], block.labels[1], take(block.labels[2])),
        rankings=tuple(
            [
                TracedRanking(
                    ranking.route if isinstance(ranking.route, int) else take(ranking.route),
                    tuple(map(take, ranking.words)),
                )
                for ranking in block.rankings
            ]
        ),
    )


def _packed_route(route: "int | array[int]") -> int | bytes:
    return route if isinstance(route, int) else pack(array("q", route))


class ChangeRecorder(Protocol):
    """Takes the blocks of boards that keep their changes, in order. It is called while reads wait,
    so it must be fast."""

    def record(self, state: BoardState, block: CountedBatch | WriteBlock) -> None:
        """Take the next block of a board."""

    def forget(self, board: int) -> None:
        """Forget the blocks of a board that was deleted, by its number."""


# From blocks to changes


class ChangeContext(Struct, frozen=True):
    """What the changes of one shard of a board are read with."""

    board: str
    uid: str
    shard: int
    rules: Rules

    def place(self, block: Block, number: int) -> BlockPlace:
        """Return the place behind a change of a block."""
        end = number + 1 >= block.count
        return BlockPlace(block.sequence, block.tag, -1 if end else number)

    def changes(self, block: Block, start: int, limit: int) -> list[Change]:
        """Return the changes of a block from number `start` on, at most `limit`."""
        stop = min(block.count, start + limit)
        if isinstance(block, WriteBlock):
            return [self._written(block)][start:stop]
        found = self._events(block, start, min(stop, block.size))
        if block.position is not None and stop == block.count:
            source, position = block.position
            found.append(
                Change(
                    self._id(block, block.size),
                    self.board,
                    "position",
                    block.now_ms,
                    data={"source": source, "position": position},
                )
            )
        return found

    def _id(self, block: Block, number: int) -> str:
        return f"{self.uid}/{self.shard}/{block.sequence}/{block.tag:x}/{number}"

    def _written(self, block: WriteBlock) -> Change:
        return Change(
            self._id(block, 0),
            self.board,
            block.kind,
            block.now_ms,
            None if block.member is None else block.member.decode(),
            data=None if block.data is None else msgspec.json.decode(block.data),
        )

    def _ranking(self, target: tuple[str, int, str], **entry: Any) -> ChangedRanking:
        name, instance, scope = target
        window = self.rules.windows[name]
        label = window.period_of(instance).label
        labels = labels_of(scope) if self.rules.scoped else None
        return ChangedRanking(name, label or None, labels, **entry)

    def _events(self, block: EventBlock, start: int, stop: int) -> list[Change]:
        rows = range(start, stop)
        members = cut(block.members, block.lengths)
        ats: Sequence[int] | None = None
        if block.ages is not None:
            ats = behind(block.now_ms, unpack(block.ages, block.size))
        added = [unpack(column, block.size) for column in block.added]
        labels = self._labels(block)
        rankings, totals = self._traced(block, rows)
        prefix = f"{self.uid}/{self.shard}/{block.sequence}/{block.tag:x}/"
        kind: ChangeKind = "set" if block.absolute else "event"
        has_sum = any(column.op == "sum" for column in self.rules.columns)
        return [
            Change(
                f"{prefix}{i}",
                self.board,
                kind,
                block.now_ms if ats is None else ats[i],
                members[i].decode(),
                _text(None if block.ids is None else block.ids[i]),
                {} if labels is None else labels[i],
                self._delta([column[i] for column in added]) if has_sum else None,
                totals[i - start],
                rankings[i - start],
            )
            for i in rows
        ]

    def _delta(self, units: Sequence[int]) -> Delta:
        """Return what an event added, None in columns of another kind than a sum."""
        parts = [
            to_value(count, column.scale) if column.op == "sum" else None
            for count, column in zip(units, self.rules.columns, strict=True)
        ]
        return parts[0] if len(parts) == 1 and parts[0] is not None else tuple(parts)

    def _labels(self, block: EventBlock) -> list[dict[str, str]] | None:
        """Return the labels of each event; None where none has any."""
        if block.labels is None:
            return None
        names, groups, each = block.labels
        named = [
            {name: value for name, value in zip(names, values, strict=True) if value is not None}
            for values in groups
        ]
        return [named[group] for group in unpack(each, block.size)]

    def _traced(
        self, block: EventBlock, rows: range
    ) -> tuple[list[list[ChangedRanking]], list[Score | None]]:
        """Return the entries of each event's member in the rankings that took it, and its score in
        the window `all` over all events."""
        found: list[list[ChangedRanking]] = [[] for _ in rows]
        totals: list[Score | None] = [None] * len(rows)
        names = [self._ranking(target) for target in block.targets]
        rules = self.rules
        for traced in block.rankings:
            route = traced.route
            if isinstance(route, int) and route < 0:
                continue
            each = [route] * block.size if isinstance(route, int) else unpack(route, block.size)
            columns = [unpack(column, block.size) for column in traced.words]
            for row in rows:
                if (index := each[row]) < 0:
                    continue
                words = [column[row] for column in columns]
                score = score_of(units_of(words, rules), rules)
                reached_ms, last_ms = times_of(words, rules)
                named = names[index]
                found[row - rows.start].append(
                    ChangedRanking(
                        named.window, named.period, named.labels, score, reached_ms, last_ms
                    )
                )
                window, _, scope = block.targets[index]
                if not scope and rules.windows[window].holds_totals:
                    totals[row - rows.start] = score
        return found, totals


def times_of(words: Sequence[int], rules: Rules) -> tuple[int | None, int | None]:
    """Return when an entry was reached, where that decides, and the time its `last` columns go by,
    from its words."""
    reached_ms = None
    if rules.tie:
        reached_ms = rules.tie * words[len(rules.columns)] * rules.resolution_ms
    if not rules.has_last:
        return reached_ms, None
    return reached_ms, words[rules.entry_words - 1] if rules.is_stamped else reached_ms


def _text(id: bytes | None) -> str | None:
    return None if id is None else id.decode()


# Pages


def ensure_kept(state: BoardState) -> None:
    """Raise ChangesNotKept for a board that keeps no changes."""
    if not state.rules.changes_ms:
        raise ChangesNotKept(f"the board {state.board.name!r} keeps no changes")


def ensure_cursor(
    state: BoardState,
    cursor: ChangeCursor,
    floors: Sequence[BlockPlace],
    newest: Sequence[BlockPlace],
) -> None:
    """Raise where a cursor does not stand between the oldest and the newest changes of a board:
    CursorDiverged, ChangesExpired."""
    name = state.board.name
    if cursor.uid != state.uid or len(cursor.places) != len(floors):
        raise CursorDiverged(f"the cursor is of another board than {name!r} is now")
    for place, floor, end in zip(cursor.places, floors, newest, strict=True):
        if place.sequence > end.sequence:
            raise CursorDiverged(
                f"the cursor stands behind block {place.sequence} of {name!r}, whose newest is "
                f"{end.sequence}"
            )
        if place.sequence < floor.sequence:
            oldest = ChangeCursor(state.uid, tuple(floors)).encode()
            raise ChangesExpired(
                f"the changes after the cursor are no longer kept; the oldest cursor is {oldest}"
            )
        for known in (floor, end):
            if place.sequence == known.sequence:
                ensure_tag(name, place, known.tag)


def ensure_tag(board: str, place: BlockPlace, tag: int) -> None:
    """Raise CursorDiverged where the block of a cursor has another tag."""
    if place.sequence and place.tag != tag:
        raise CursorDiverged(
            f"block {place.sequence} of {board!r} is another one than the cursor names"
        )


def make_page(
    contexts: Sequence[ChangeContext],
    places: Sequence[BlockPlace],
    newest: Sequence[BlockPlace],
    blocks: Iterable[tuple[int, Block]],
    limit: int,
) -> ChangePage:
    """Return the page behind places in the shards of a board. `blocks` are those from the places
    on, with their shards; `newest` is the end of each shard. Raises ChangesExpired where blocks are
    missing, CursorDiverged where the block of a place has another tag."""
    board, uid = contexts[0].board, contexts[0].uid
    reached = list(places)
    found: list[Change] = []
    for shard, block in blocks:
        place, start = reached[shard], 0
        if block.sequence == place.sequence:
            ensure_tag(board, place, block.tag)
            start = block.count if place.number < 0 else place.number + 1
        elif block.sequence > place.sequence + 1:
            raise ChangesExpired("changes after the cursor were taken away meanwhile")
        some = contexts[shard].changes(block, start, limit - len(found))
        found += some
        reached[shard] = contexts[shard].place(block, start + len(some) - 1)
        if len(found) >= limit:
            break
    more = any(
        place.sequence < end.sequence or place.number >= 0
        for place, end in zip(reached, newest, strict=True)
    )
    return ChangePage(found, ChangeCursor(uid, tuple(reached)).encode(), more)
