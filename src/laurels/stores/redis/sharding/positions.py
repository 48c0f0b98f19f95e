"""Positions of sources on a board in several shards.

No step spans several shards. So a batch with a position is counted in an order that allows any
process to continue it after any interruption:

- One shard, the keeper, stores the position of the source. Every other shard stores, together with
  its share, a pair: the positions before and after the batch. The keeper counts last. A shard that
  already has the pair skips its share.
- A batch that follows a position (`Batch.follows`) first claims it: before any shard counts, the
  keeper stores the pair, if the position is still the previous one. From then on only this batch
  may be counted, by any process; a batch that ends at another position raises PositionDiffers,
  which names the claimed end. The claim ends when the keeper stores the position.
- A shard counts its share of such a batch only if it still stores what was read before the claim.
  So a process that was paused in the middle counts nothing if another process has continued
  meanwhile.

So every shard has counted its share of all events up to its own position, the second of its pair.
The position of each shard is that of the keeper or, during a batch, the end of the batch. If a
shard lost its newest writes, as by a failover to a lagging replica, its position is neither of
these two. If the keeper lost its newest writes, the same holds for the other shards. Then batches
raise ShardsDiffer, except batches with `behind`. Such a batch follows the position of some shards.
These count their shares, and the other shards skip theirs. The caller knows the order of positions,
which are only texts here. It sends such batches for the shards that have counted least, until all
shards have the same position. Such batches need no claim: each shard compares its stored position,
so no share counts twice, wherever the batches end.
"""

from collections.abc import Sequence

import msgspec
from msgspec import Struct

from laurels.core.changes.answers import SINK_PREFIX
from laurels.errors import NotReady, PositionDiffers, PositionMoved, ShardsDiffer
from laurels.model.validation import quoted
from laurels.stores.redis.remote import Opened, PositionWrite

from .shard_index import ShardIndex
from .shards import gather, shard_of

Pair = tuple[str | None, str]
CLAIM = "\0claim\0"
"""The beginning of the name of a claim; the name of the source follows."""
READS = 40
"""The maximum number of times that differing positions are read again while they keep changing."""
_pairs = msgspec.json.Decoder(Pair)


class StoredPositions(Struct):
    """The stored positions of a source: the text in each shard, and the claim in the keeper."""

    source: str
    keeper: int
    texts: Sequence[str | None]
    claim: str | None

    @property
    def before(self) -> str | None:
        """The position of the source, which the keeper stores; None if there is none."""
        return self.texts[self.keeper] or None

    def pair(self, shard: int) -> Pair | None:
        """Return the pair of a shard other than the keeper: the positions before and after its last
        batch."""
        return _pair(self.texts[shard])

    def at(self, shard: int) -> str | None:
        """Return the position up to which a shard has counted its share; None if it has counted
        nothing."""
        if shard == self.keeper:
            return self.before
        pair = self.pair(shard)
        return None if pair is None else pair[1] or None

    @property
    def differ(self) -> bool:
        """Whether a shard has lost writes. That is the case if the shards neither have the same
        position nor are in the middle of one batch. Always False for a sink, as its position is not
        about counted events."""
        if self.source.startswith(SINK_PREFIX):
            return False
        before, ends = self.before, set[str | None]()
        for shard in range(len(self.texts)):
            if (at := self.at(shard)) == before:
                continue
            pair = self.pair(shard)
            if pair is None or (pair[0] or None) != before:
                return True
            ends.add(at)
        return len(ends) > 1

    def _lost_by_keeper(self, position: str) -> bool:
        """Return whether the keeper lost the batch that ended at `position`. Call this only with a
        position that a new batch follows, since then the keeper must have counted the batch that
        ended there. For any other position, the keeper may not have counted that batch yet."""
        if self.source.startswith(SINK_PREFIX) or self.before == position:
            return False
        pairs = (self.pair(shard) for shard in range(len(self.texts)) if shard != self.keeper)
        return any(pair == (self.before, position) for pair in pairs)

    def ensure_level(self, follows: str | None = None) -> None:
        """Raise ShardsDiffer if a shard lost writes. If `follows` is not None, it is the position
        that a batch follows, so the keeper must have stored it at some time."""
        if self.differ or (follows and self._lost_by_keeper(follows)):
            positions = [self.at(shard) for shard in range(len(self.texts))]
            different = len(set(positions))
            raise ShardsDiffer(
                f"the {len(positions)} shards of the board have counted {quoted(self.source)} up "
                f"to {different} different positions",
                positions,
            )

    def ensure_none_in_part(self, text: str, follows: str | None) -> None:
        """Raise PositionDiffers if a batch was begun that does not end at `text`. A batch that was
        only claimed does not count as begun if this write follows no position, or if shards have
        already counted another batch."""
        pairs = [_pair(t) for shard, t in enumerate(self.texts) if shard != self.keeper]
        begun = [pair for pair in pairs if pair and pair[0] == self.before != pair[1]]
        for kept in begun if begun or follows is None else [_pair(self.claim)]:
            if kept is not None and kept[0] == self.before and kept[1] not in (self.before, text):
                raise PositionDiffers(
                    f"a batch of {quoted(self.source)} up to {quoted(kept[1])} was counted in "
                    f"part, this one goes up to {quoted(text)}",
                    ends_at=kept[1],
                )

    def writes(self, text: str, follows: str | None) -> list[PositionWrite]:
        """Return, for each shard, the positions to store together with its share of a batch that
        ends at the position `text`. If the batch `follows` a position, each write also has the text
        that the shard is expected to store so far."""
        claim = CLAIM + self.source
        if follows is None:
            pair = encode_pair((self.before, text))
            writes = [PositionWrite({self.source: pair}) for _ in self.texts]
            writes[self.keeper] = PositionWrite({self.source: text, claim: ""})
            return writes
        pair = encode_pair((follows or None, text))
        writes = [PositionWrite({self.source: pair}, {self.source: t or ""}) for t in self.texts]
        writes[self.keeper] = PositionWrite({self.source: text, claim: ""}, {self.source: follows})
        return writes

    def lagging_writes(self, text: str, follows: str) -> dict[int, PositionWrite]:
        """Return the positions to store together with the shares of a batch with `behind`, by
        shard. Only the shards at the position `follows`, which lost writes, are included. The other
        shards have already counted their shares of the batch, which ends at `text`."""
        shards = [i for i in range(len(self.texts)) if (self.at(i) or "") == follows]
        pair = encode_pair((follows or None, text))
        writes = {
            i: PositionWrite({self.source: pair}, {self.source: self.texts[i] or ""})
            for i in shards
        }
        if self.keeper in writes:
            stores = {self.source: text, CLAIM + self.source: ""}
            writes[self.keeper] = PositionWrite(stores, {self.source: follows})
        return writes

    async def take_claim(
        self, index: ShardIndex, shards: Sequence[Opened], text: str, follows: str
    ) -> None:
        """Claim the position that a batch follows. Raises PositionMoved if another position is
        stored, and NotReady if another process is claiming the position at this moment."""
        if (self.before or "") != follows:
            raise PositionMoved(
                f"expected the position {quoted(follows)} of {quoted(self.source)} before this "
                f"batch, got {quoted(self.before)}"
            )
        pair = encode_pair((follows or None, text))
        if self.claim == pair:
            return
        name = CLAIM + self.source
        before = {self.source: follows, name: self.claim or ""}
        try:
            await index.set_position(shards[self.keeper], PositionWrite({name: pair}, before))
        except PositionMoved as error:
            raise _busy(self.source) from error
        self.claim = pair

    async def release_claim(self, index: ShardIndex, shards: Sequence[Opened]) -> None:
        """Remove the claim of a batch that no shard has counted."""
        name = CLAIM + self.source
        if self.claim:
            released = PositionWrite({name: ""}, {name: self.claim})
            await index.set_position(shards[self.keeper], released)


async def stored_positions(
    index: ShardIndex, shards: Sequence[Opened], source: str
) -> StoredPositions:
    """Return the positions of a source that the shards of a board store. The shards are not read at
    one instant, so positions that differ are read again until two reads agree. Raises NotReady if
    the positions keep changing."""
    positions = await _read(index, shards, source)
    for _ in range(READS):
        if not positions.differ:
            return positions
        before, positions = positions, await _read(index, shards, source)
        if positions == before:
            return positions
    raise _busy(source)


async def _read(index: ShardIndex, shards: Sequence[Opened], source: str) -> StoredPositions:
    keeper = position_shard(source, len(shards))
    *texts, claim = await gather(
        [
            *[index.position(shard, source) for shard in shards],
            index.position(shards[keeper], CLAIM + source),
        ]
    )
    return StoredPositions(source, keeper, texts, claim)


def position_shard(source: str, count: int) -> int:
    """Return the keeper of a source: the shard that stores its position."""
    return shard_of(source.encode(), count)


def not_ready(error: PositionMoved, source: str) -> NotReady:
    """Return the error for a shard whose stored position has changed since the last read."""
    busy = _busy(source)
    busy.__cause__ = error
    return busy


def encode_pair(pair: Pair) -> str:
    """Return the text of a pair of positions."""
    return msgspec.json.encode(pair).decode()


def level_text(text: str) -> str:
    """Return the text that a shard other than the keeper stores when it has counted everything up
    to `text` and no batch is in progress."""
    return encode_pair((text, text)) if text else ""


def _busy(source: str) -> NotReady:
    return NotReady(f"another process is counting a batch of {quoted(source)} at this moment")


def _pair(text: str | None) -> Pair | None:
    return None if not text else _pairs.decode(text)
