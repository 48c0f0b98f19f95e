"""Batches of events, stored field by field, as columns of values. In this form events are planned,
logged and counted. Pure."""

from array import array
from collections.abc import Iterable, Iterator, Sequence

from msgspec import Struct
from msgspec.structs import replace

from laurels.engine.batch.intake import Columns
from laurels.engine.batch.packing import split_texts
from laurels.model.windows.weighing import Weighing, Weights

from .labels import Labels


class Batch(Struct, frozen=True):
    """Events of one board as columns, all accepted at `now_ms`: the input of the fold.

    In event time each event has its own time of acceptance, in `nows`. These times never decrease
    and end with `now_ms`. They are so close together that every window treats each event of the
    batch in the same way at all these times.

    `position` is the progress of an import after these events: the name of its source and a text.
    `follows` is the position that must be stored before the events are counted: "" for none, None
    if it may be any. With `behind`, the shards with this position count their events, and the other
    shards skip theirs. `judged_ms` is the time at which a stream took the events; whether they are
    late is decided as of this time, or as of `now_ms` if it is None. With `absolute`, the values
    are scores to be set, instead of the values of events. With `atomic`, the batch is
    all-or-nothing. `tag` is the random number of the batch's log record, if the board keeps
    changes. `weights` are the weights at the events' instants, as far as they have been computed.
    `labels` is None if no event has labels.
    """

    board: int
    now_ms: int
    size: int
    members: bytes
    lengths: bytes
    values: tuple["array[int]", ...]
    ats: "array[int] | None" = None
    ids: list[bytes | None] | None = None
    absolute: bool = False
    atomic: bool = False
    position: tuple[str, str] | None = None
    weights: dict[Weighing, Weights] = {}
    labels: Labels | None = None
    nows: "array[int] | None" = None
    tag: int = 0
    follows: str | None = None
    behind: bool = False
    judged_ms: int | None = None

    def member(self, i: int) -> bytes:
        """Return the id of event i's member; O(i)."""
        start = sum(self.lengths[:i])
        return self.members[start : start + self.lengths[i]]

    def member_list(self) -> list[bytes]:
        """Return the ids of all members, in the order of the events."""
        return split_texts(self.members, self.lengths)

    def accepted_at(self, i: int) -> int:
        """Return the time at which event i was accepted."""
        return self.now_ms if self.nows is None else self.nows[i]

    def accepted_from(self, now_ms: int) -> "Batch":
        """Return the batch with each time of acceptance before `now_ms` replaced by `now_ms`."""
        if now_ms <= self.now_ms and (self.nows is None or now_ms <= self.nows[0]):
            return self
        nows = self.nows and array("q", [max(each, now_ms) for each in self.nows])
        return replace(self, now_ms=max(self.now_ms, now_ms), nows=nows)

    def at(self, i: int) -> int:
        return self.now_ms if self.ats is None else self.ats[i]

    def weights_in(self, weighing: Weighing) -> Weights:
        """Return the weights of the events. They come from the log if it has them; otherwise they
        are computed from the events' times.
        """
        if (cached := self.weights.get(weighing)) is not None:
            return cached
        return weighing.weights(self.now_ms if self.ats is None else self.ats)

    def weighed(self, weighings: Iterable[Weighing]) -> "Batch":
        """Return the batch with the weights of its events."""
        weights = {weighing: self.weights_in(weighing) for weighing in weighings}
        return replace(self, weights=weights) if weights else self

    def split(self, ends: Sequence[int], nows: "array[int]") -> list["Batch"]:
        """Divide the batch into parts: each position in `ends` is the end of a part and the
        beginning of the next one. `nows` has the time at which each event is accepted. O(size)."""
        parts, start, place = [], 0, 0
        for end in ends:
            lengths = self.lengths[start:end]
            width = sum(lengths)
            parts.append(
                replace(
                    self,
                    now_ms=nows[end - 1],
                    nows=nows[start:end],
                    size=end - start,
                    members=self.members[place : place + width],
                    lengths=lengths,
                    values=tuple([column[start:end] for column in self.values]),
                    ats=None if self.ats is None else self.ats[start:end],
                    ids=None if self.ids is None else self.ids[start:end],
                    weights={},
                    labels=None if self.labels is None else self.labels.span(start, end),
                )
            )
            start, place = end, place + width
        return parts

    def take(self, kept: Sequence[int]) -> "Batch":
        """Return a batch with only the events at the positions `kept`; O(size)."""
        return next(self.taken([kept]))

    def taken(self, positions: Iterable[Sequence[int]]) -> Iterator["Batch"]:
        """Yield a batch for each of several lists of positions. Each batch has the events at these
        positions, which may be in any order. O(size), and O(positions) for each list."""
        members, ids = self.member_list(), self.ids
        for kept in positions:
            yield replace(
                self,
                size=len(kept),
                members=b"".join([members[i] for i in kept]),
                lengths=bytes([self.lengths[i] for i in kept]),
                values=tuple([array("q", [column[i] for i in kept]) for column in self.values]),
                ats=None if self.ats is None else array("q", [self.ats[i] for i in kept]),
                ids=None if ids is None else [ids[i] for i in kept],
                weights={length: cached.take(kept) for length, cached in self.weights.items()},
                labels=None if self.labels is None else self.labels.take(kept),
                nows=None if self.nows is None else array("q", [self.nows[i] for i in kept]),
            )


def batch_of(
    columns: Columns,
    board: int,
    now_ms: int,
    *,
    absolute: bool = False,
    atomic: bool = False,
) -> Batch:
    """Return columns as a batch accepted at `now_ms`. The times `at` are not changed."""
    return Batch(
        board=board,
        now_ms=now_ms,
        size=columns.n,
        members=columns.arena,
        lengths=columns.lengths,
        values=columns.values,
        ats=columns.ats,
        ids=columns.ids,
        absolute=absolute,
        atomic=atomic,
        labels=columns.labels,
    )
