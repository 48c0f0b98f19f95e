"""Positions of sources on a board in several shards.

No step spans several shards, so a batch that comes with a position is counted in an order in which
it can be continued by any process after any interruption:

- One shard, the keeper, stores the position of the source. Every other shard stores a position
  together with its share, as the pair of the previous position and this one. The keeper counts
  last. A shard that has the pair already skips its share.
- A batch that follows a position (`Batch.follows`) first claims it: the keeper notes the pair
  before any shard counts, if the position is still the previous one. From then on only this batch
  may be counted, by this process or another one; a batch with another end is refused as
  PositionDiffers, which names the end. The claim ends with the position.
- Each step of such a batch is carried out only where the shard still stores what was read before
  the claim. So a process that was paused in the middle counts nothing after another has gone on.

So every shard has counted its share of everything up to its own position: the second of its pair.
All of these are the position of the keeper or, during a batch, the end of that batch. A shard that
lost its newest writes, as by a failover to a replica that lagged, is noticed by that: its position,
or that of the others if it is the keeper, is neither of the two. Then nothing is counted
(ShardsDiffer), but batches that are `behind`: they follow the position of some shards, which count
their shares, and the others skip theirs. The caller knows the order of positions, which are texts
here, and brings the shards that are furthest behind up to the next ones until all are level. No
claim is needed for that: each shard compares what it stores, so no share counts twice however
batches are cut.
"""

from collections.abc import Sequence

import msgspec
from msgspec import Struct

from laurels.core.changes.answers import SINK_PREFIX
from laurels.errors import NotReady, PositionDiffers, PositionMoved, ShardsDiffer
from laurels.model.validation import quoted
from laurels.stores.redis.remote import Opened, PositionWrite, ShardIndex

from .shards import gather, shard_of

Pair = tuple[str | None, str]
CLAIM = "\0claim\0"
"""What the name of a claim begins with, before that of its source."""
READS = 40
"""The most times that positions are read which seem to differ, and change meanwhile."""
_pairs = msgspec.json.Decoder(Pair)


class StoredPositions(Struct):
    """A source's position as the shards store it: a text for each shard, and the keeper's claim."""

    source: str
    keeper: int
    texts: Sequence[str | None]
    claim: str | None

    @property
    def before(self) -> str | None:
        """The position of the source, None for none."""
        return self.texts[self.keeper] or None

    def pair(self, shard: int) -> Pair | None:
        """Return the positions between which a shard other than the keeper counted last."""
        return _pair(self.texts[shard])

    def at(self, shard: int) -> str | None:
        """Return the position up to which a shard has counted its share, None for none."""
        if shard == self.keeper:
            return self.before
        pair = self.pair(shard)
        return None if pair is None else pair[1] or None

    @property
    def differ(self) -> bool:
        """Whether a shard lost writes: the shards are neither level nor inside one batch. The
        position of a sink does not belong to what shards have counted."""
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

    def ensure_level(self) -> None:
        """Raise ShardsDiffer where a shard lost writes."""
        if self.differ:
            found = [self.at(shard) for shard in range(len(self.texts))]
            different = len(set(found))
            raise ShardsDiffer(
                f"the {len(found)} shards of the board have counted {quoted(self.source)} up to "
                f"{different} different positions",
                found,
            )

    def ensure_none_in_part(self, text: str, follows: str | None) -> None:
        """Raise PositionDiffers where a batch was begun that ends elsewhere than at `text`. A write
        that follows no position ends a claim under which no shard has counted yet, and so does a
        batch that shards have counted under another one."""
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
        """Return what each shard stores together with its share of a batch up to `text`."""
        claim = CLAIM + self.source
        if follows is None:
            pair = encode_pair((self.before, text))
            found = [PositionWrite({self.source: pair}) for _ in self.texts]
            found[self.keeper] = PositionWrite({self.source: text, claim: ""})
            return found
        pair = encode_pair((follows or None, text))
        found = [PositionWrite({self.source: pair}, {self.source: t or ""}) for t in self.texts]
        found[self.keeper] = PositionWrite({self.source: text, claim: ""}, {self.source: follows})
        return found

    def lagging_writes(self, text: str, follows: str) -> dict[int, PositionWrite]:
        """Return, for a batch up to `text`, what is stored in the shards that lost writes, so that
        they are still at the position `follows`, together with their shares of the batch. The other
        shards have already counted theirs."""
        shards = [i for i in range(len(self.texts)) if (self.at(i) or "") == follows]
        pair = encode_pair((follows or None, text))
        found = {
            i: PositionWrite({self.source: pair}, {self.source: self.texts[i] or ""})
            for i in shards
        }
        if self.keeper in found:
            stores = {self.source: text, CLAIM + self.source: ""}
            found[self.keeper] = PositionWrite(stores, {self.source: follows})
        return found

    async def take_claim(
        self, index: ShardIndex, shards: Sequence[Opened], text: str, follows: str
    ) -> None:
        """Claim the position that a batch follows. Raises PositionMoved, and NotReady where another
        process claims it at this moment."""
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
        """End the claim of a batch of which nothing was counted."""
        name = CLAIM + self.source
        if self.claim:
            released = PositionWrite({name: ""}, {name: self.claim})
            await index.set_position(shards[self.keeper], released)


async def stored_positions(
    index: ShardIndex, shards: Sequence[Opened], source: str
) -> StoredPositions:
    """Return the positions of a source that the shards of a board store. As the shards are not
    read at one instant, they are read again if they differ, until two reads agree. Raises
    NotReady if they keep changing."""
    found = await _read(index, shards, source)
    for _ in range(READS):
        if not found.differ:
            return found
        before, found = found, await _read(index, shards, source)
        if found == before:
            return found
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
    """Return the shard that stores the position of a source (its keeper)."""
    return shard_of(source.encode(), count)


def not_ready(error: PositionMoved, source: str) -> NotReady:
    """Return the error of a shard other than the keeper that stores something else than was
    read."""
    busy = _busy(source)
    busy.__cause__ = error
    return busy


def encode_pair(pair: Pair) -> str:
    """Return the text of a pair of positions."""
    return msgspec.json.encode(pair).decode()


def level_text(text: str) -> str:
    """Return what a shard other than the keeper stores that has counted its share up to `text`, and
    is not inside a batch."""
    return encode_pair((text, text)) if text else ""


def _busy(source: str) -> NotReady:
    return NotReady(f"another process counts a batch of {quoted(source)} at this moment")


def _pair(text: str | None) -> Pair | None:
    return None if not text else _pairs.decode(text)
