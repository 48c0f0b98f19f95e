"""Make pages of changes from blocks. Pure."""

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec
from msgspec import Struct

from laurels.core.board_state import BoardState
from laurels.engine.batch.packing import differences, split_texts, unpack
from laurels.errors import (
    ChangesExpired,
    ChangesNotKept,
    CursorDiverged,
)
from laurels.model.labels import labels_of
from laurels.model.rules import Rules
from laurels.model.scale import Whole
from laurels.model.score import Number, Score, score_of, units_of, values_of
from laurels.model.validation import quoted

from .answers import Change, ChangedRanking, ChangeKind, ChangePage, Delta
from .blocks import Block, EventBlock, MendBlock, WriteBlock
from .cursor import UNKNOWN_TAG, BlockPlace, ChangeCursor, Edge
from .payout_blocks import PayoutBlock, change_of_row


class ChangeContext(Struct, frozen=True):
    """The board and the shard of some blocks, as needed to convert the blocks to changes."""

    board: str
    uid: str
    shard: int
    rules: Rules

    @property
    def _all_window(self) -> str | None:
        """The name of the window whose scores are reported in changes: the first window of the type
        `all`, in the scope of all events; None without such a window."""
        index = self.rules.all_window
        return None if index < 0 else self.rules.specs[index].window

    def place(self, block: Block, number: int) -> BlockPlace:
        """Return the place after a change of a block."""
        end = number + 1 >= block.count
        return BlockPlace(block.sequence, block.tag, -1 if end else number)

    def changes(self, block: Block, start: int, limit: int) -> list[Change]:
        """Return at most `limit` changes of a block, from number `start` on."""
        stop = min(block.count, start + limit)
        if isinstance(block, WriteBlock):
            return [self._written(block)][start:stop]
        if isinstance(block, MendBlock):
            return self._mended(block, range(start, stop))
        if isinstance(block, PayoutBlock):
            rows = block.rows[start:stop]
            return [change_of_row(row, self._id(block, start + i)) for i, row in enumerate(rows)]
        changes = self._events(block, start, min(stop, block.size))
        if block.position is not None and start < stop == block.count:
            source, position = block.position
            changes.append(
                Change(
                    self._id(block, block.size),
                    self.board,
                    "position",
                    block.now_ms,
                    data={"source": source, "position": position},
                )
            )
        return changes

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

    def _mended(self, block: MendBlock, rows: range) -> list[Change]:
        window, _, scope = block.target
        members, rules = split_texts(block.members, block.lengths), self.rules
        columns = [unpack(column, block.count) for column in block.words]
        is_total = not scope and window == self._all_window
        changes: list[Change] = []
        for i in rows:
            entry: dict[str, Any] = {}
            if block.present[i]:
                words = [column[i] for column in columns]
                reached_ms, last_ms = times_of(words, rules)
                score = score_of(units_of(words, rules), rules)
                entry = {"score": score, "reached_ms": reached_ms, "last_ms": last_ms}
            changes.append(
                Change(
                    self._id(block, i),
                    self.board,
                    "mend",
                    block.now_ms,
                    members[i].decode(),
                    score=entry.get("score") if is_total else None,
                    rankings=[self._ranking(block.target, **entry)],
                )
            )
        return changes

    def _ranking(self, target: tuple[str, int, str], **entry: Any) -> ChangedRanking:
        name, instance, scope = target
        window = self.rules.windows[name]
        label = window.period_of(instance).label
        labels = labels_of(scope) if self.rules.scoped else None
        return ChangedRanking(name, label or None, labels, **entry)

    def _events(self, block: EventBlock, start: int, stop: int) -> list[Change]:
        rows = range(start, stop)
        members = split_texts(block.members, block.lengths)
        ats: Sequence[int] | None = None
        if block.ages is not None:
            ats = differences(block.now_ms, unpack(block.ages, block.size))
        deltas: Sequence[Delta | None] = [None] * len(rows)
        if any(column.adds_up for column in self.rules.columns):
            added = [unpack(column, block.size)[start:stop] for column in block.added]
            deltas = self._deltas(added)
        labels = self._labels(block)
        rankings, totals = self._traced(block, start, stop)
        prefix = f"{self.uid}/{self.shard}/{block.sequence}/{block.tag:x}/"
        kind: ChangeKind = "set" if block.absolute else "event"
        return [
            Change(
                f"{prefix}{i}",
                self.board,
                kind,
                block.now_ms if ats is None else ats[i],
                members[i].decode(),
                _text(None if block.ids is None else block.ids[i]),
                {} if labels is None else labels[i],
                deltas[i - start],
                totals[i - start],
                rankings[i - start],
            )
            for i in rows
        ]

    def _deltas(self, added: Sequence[Sequence[int]]) -> Sequence[Delta]:
        """Return, for each event, the amount that it added to each sum column, with None for other
        columns. `added` has these amounts in units, column by column. There must be at least one
        sum column.
        """
        columns = self.rules.columns
        if len(columns) == 1:
            return values_of(added[0], columns[0].scale)
        parts: list[Sequence[Number | None]] = [
            values_of(units, column.scale) if column.adds_up else [None] * len(units)
            for units, column in zip(added, columns, strict=True)
        ]
        return list(zip(*parts, strict=True))

    def _labels(self, block: EventBlock) -> list[dict[str, str]] | None:
        """Return the labels of each event, None if no event has any."""
        if block.labels is None:
            return None
        names, groups, each = block.labels
        named = [
            {name: value for name, value in zip(names, values, strict=True) if value is not None}
            for values in groups
        ]
        return [named[group] for group in unpack(each, block.size)]

    def _traced(
        self, block: EventBlock, start: int, stop: int
    ) -> tuple[list[list[ChangedRanking]], list[Score | None]]:
        """Return two lists with an item for each event from `start` to `stop`. One has the event's
        entries in the rankings where it counted, the other the member's score in the window `all`,
        in the scope of all events, or None without such a score."""
        rankings: list[list[ChangedRanking]] = [[] for _ in range(start, stop)]
        totals: list[Score | None] = [None] * (stop - start)
        names = [self._ranking(target) for target in block.targets]
        all_window = self._all_window
        is_total = [window == all_window and not scope for window, _, scope in block.targets]
        scale = Whole(self.rules)
        for traced in block.rankings:
            route = traced.route
            if isinstance(route, int) and route < 0:
                continue
            each = (
                [route] * (stop - start)
                if isinstance(route, int)
                else unpack(route, block.size)[start:stop]
            )
            columns = [unpack(column, block.size)[start:stop] for column in traced.words]
            scores, times = scale.scores(columns), times_of_many(columns, self.rules)
            for i, (index, score, reached_ms, last_ms) in enumerate(
                zip(each, scores, *times, strict=True)
            ):
                if index < 0:
                    continue
                named = names[index]
                rankings[i].append(
                    ChangedRanking(
                        named.window, named.period, named.labels, score, reached_ms, last_ms
                    )
                )
                if is_total[index]:
                    totals[i] = score
        return rankings, totals


def times_of(words: Sequence[int], rules: Rules) -> tuple[int | None, int | None]:
    """Return two times from an entry's words: the time at which its score was reached, None if this
    does not decide ties; and the time that decides its `last` columns, None if it has none."""
    [reached_ms], [last_ms] = times_of_many([[word] for word in words], rules)
    return reached_ms, last_ms


def times_of_many(
    words: Sequence[Sequence[int]], rules: Rules
) -> tuple[Sequence[int | None], Sequence[int | None]]:
    """Return the times of `times_of` for many entries, from their words in columns."""
    absent = [None] * len(words[0])
    reached_ms: Sequence[int | None] = absent
    if rules.tie:
        unit = rules.tie * rules.resolution_ms
        reached_ms = [unit * stamp for stamp in words[len(rules.columns)]]
    if not rules.has_last:
        return reached_ms, absent
    return reached_ms, words[rules.entry_words - 1] if rules.is_stamped else reached_ms


def _text(id: bytes | None) -> str | None:
    return None if id is None else id.decode()


def ensure_kept(state: BoardState) -> None:
    """Raise ChangesNotKept for a board that keeps no changes."""
    if not state.rules.changes_ms:
        raise ChangesNotKept(f"the board {quoted(state.board.name)} keeps no changes")


def ensure_cursor(
    state: BoardState,
    cursor: ChangeCursor,
    floors: Sequence[BlockPlace],
    newest: Sequence[BlockPlace],
) -> None:
    """Raise CursorDiverged or ChangesExpired if a cursor is not between the oldest and the newest
    changes of a board."""
    name = state.board.name
    if cursor.uid != state.uid or len(cursor.places) != len(floors):
        raise CursorDiverged(
            f"the cursor was made for an earlier board than the current {quoted(name)}"
        )
    for place, floor, end in zip(cursor.places, floors, newest, strict=True):
        if place.sequence > end.sequence:
            raise CursorDiverged(
                f"the cursor is ahead of {quoted(name)}: it is at block {place.sequence}, and the "
                f"newest is {end.sequence}"
            )
        if place.sequence < floor.sequence:
            oldest = ChangeCursor(state.uid, tuple(floors)).encode()
            raise ChangesExpired(
                f"the changes after the cursor are no longer kept; the oldest cursor is {oldest}"
            )
        for edge in (floor, end):
            if place.sequence == edge.sequence:
                ensure_tag(name, place, edge.tag)


def place_at(edge: Edge, floor: BlockPlace, newest: BlockPlace) -> BlockPlace:
    """Return the place of a cursor that names an edge of the changes instead of places. It is in
    the shard with the board's last change: before the oldest kept block or, for "last", before the
    newest block."""
    if edge == "last" and newest.sequence > floor.sequence:
        return BlockPlace(newest.sequence - 1, UNKNOWN_TAG)
    return floor


def ensure_tag(board: str, place: BlockPlace, tag: int) -> None:
    """Raise CursorDiverged if the cursor's `place` was made for a block with another tag than
    `tag`, the tag of the stored block."""
    if place.sequence and UNKNOWN_TAG not in (place.tag, tag) and place.tag != tag:
        raise CursorDiverged(
            f"block {place.sequence} of {quoted(board)} has another tag than in the cursor: the "
            "changes that the cursor follows are lost"
        )


def make_page(
    contexts: Sequence[ChangeContext],
    places: Sequence[BlockPlace],
    newest: Sequence[BlockPlace],
    blocks: Iterable[tuple[int, Block]],
    limit: int,
    waiting: int,
    *,
    deleted: bool = False,
) -> ChangePage:
    """Return the page of changes after `places`, one place for each shard of a board. `blocks` are
    the blocks from these places on, each with its shard. `newest` is the end of the changes in each
    shard. `waiting` is the number of changes after `places` that sinks send. `deleted` means that
    the board is deleted, so that the cursor after the newest change is the end. Raises
    ChangesExpired if blocks are missing, CursorDiverged if the block of a place has another
    tag."""
    board, uid = contexts[0].board, contexts[0].uid
    reached = list(places)
    changes: list[Change] = []
    for shard, block in blocks:
        place, start = reached[shard], 0
        if block.sequence == place.sequence:
            ensure_tag(board, place, block.tag)
            start = start_of(block, place)
        elif block.sequence > place.sequence + 1:
            raise ChangesExpired("changes after the cursor were removed meanwhile")
        some = contexts[shard].changes(block, start, limit - len(changes))
        changes += some
        waiting -= sent_before(block, start + len(some)) - sent_before(block, start)
        reached[shard] = contexts[shard].place(block, start + len(some) - 1)
        if len(changes) >= limit:
            break
    more = any(
        place.sequence < end.sequence or place.number >= 0
        for place, end in zip(reached, newest, strict=True)
    )
    edge: Edge = "end" if deleted and not more else ""
    return ChangePage(changes, ChangeCursor(uid, tuple(reached), edge).encode(), more, waiting)


def start_of(block: Block, place: BlockPlace) -> int:
    """Return the number of the first change of a block that is after `place`; 0 if `place` is in an
    earlier block."""
    return block.count if place.number < 0 else place.number + 1


def sent_before(block: Block, number: int) -> int:
    """Count the changes that sinks send among the first `number` changes of a block. Of a block,
    sinks send all changes, all but the last one, or none."""
    return min(number, block.sent)
