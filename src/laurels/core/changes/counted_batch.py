"""The changes of a counted batch of events, from which a block is made. Pure."""

from array import array
from collections.abc import Sequence
from operator import neg

from msgspec import Struct
from msgspec.structs import replace

from laurels.core.index import COUNTED, Outcomes
from laurels.core.plan import Plan
from laurels.engine.batch.packing import differences, pack, split_texts, unpack
from laurels.model.batch import Batch
from laurels.model.rules import Rules

from .blocks import EventBlock, TracedRanking, is_sent

_COUNTED = bytes(code in COUNTED for code in range(256))


class CountedBatch(Struct, frozen=True):
    """A counted batch. Its block is made when it is needed."""

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
        """The number of changes in the block."""
        return self.outcomes.counted + (self.batch.position is not None)

    @property
    def sent(self) -> int:
        """The number of changes that sinks send."""
        return self.outcomes.counted + is_sent(self.batch.position)

    def block(self) -> EventBlock:
        """Return the block of the events that counted. O(size)."""
        begun = begin_block(self.rules, self.batch, self.plan)
        trace = self.outcomes.trace
        if trace is None:  # no event counted, so only the position has changed
            return replace(_taken(begun, []), sequence=self.sequence, tag=self.tag)
        words = [columns for _, columns in trace.rankings]
        return complete_block(
            self.rules, begun, self.sequence, self.tag, self.outcomes.codes, words, trace.added
        )


def begin_block(rules: Rules, batch: Batch, plan: Plan) -> EventBlock:
    """Return the block of a batch before it is counted: with all its events, but without their
    entries."""
    return EventBlock(
        0,
        0,
        batch.now_ms,
        batch.size,
        batch.members,
        bytes(batch.lengths),
        tuple([pack(column) for column in batch.values]),
        None if batch.ats is None else pack(differences(batch.now_ms, batch.ats)),
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
    """Return the block of the events that counted. `begun` is the block from `begin_block`, `codes`
    are the outcomes of all its events. `words` has, for each ranking, the words of the member's
    entry as each event left it, column by column. `added` has, as words, the amounts by which
    events with an absolute score changed the scores."""
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
    """Return a block with only some of its events."""
    size, members = block.size, split_texts(block.members, block.lengths)

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
