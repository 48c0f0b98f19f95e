"""The frames of a live feed. They are server-sent events with a list, the changes of a list, or the
change of a member."""

import msgspec
from msgspec import Struct

from laurels.core.standing import AsOf, Entry, Gap, Needed, Page, Standing
from laurels.model.score import Score

HEARTBEAT = b": heartbeat\n\n"
END = b"event: end\ndata: {}\n\n"

_encode = msgspec.json.Encoder(decimal_format="number").encode


class Moved(Struct, frozen=True):
    """A member whose rank has changed."""

    member: str
    rank: int
    previous_rank: int
    score: Score


class FullList(Struct, frozen=True):
    """The whole list. `certain` is the number of leading positions of the ranking that can be
    listed now, or None if all can, as in `Page`."""

    entries: list[Entry]
    total: int
    as_of: AsOf
    limit: int
    certain: int | None = None


class ListChange(Struct, frozen=True):
    """The changes since the previous frame. `order` has the members of the list after these
    changes; `certain` is the same as in `FullList`."""

    as_of: AsOf
    total: int
    order: list[str]
    entered: list[Entry]
    left: list[str]
    moved: list[Moved]
    scored: list[Entry]
    certain: int | None = None


class MemberChange(Struct, frozen=True):
    """The current and the previous standing of a member.

    If the member's rank has become worse, `overtaken_by` is the member directly above it. A member
    that is not ranked has no rank. An estimated rank lies from `rank_low` to `rank_high`. `to_rank`
    is the gap to the position that the feed names, `needed` the value of one event that takes the
    member to that position.
    """

    member: str
    rank: int | None
    score: Score | None
    total: int
    previous_rank: int | None
    previous_score: Score | None
    overtaken_by: str | None
    as_of: AsOf
    to_rank: Gap | None = None
    needed: Needed | None = None
    rank_low: int | None = None
    rank_high: int | None = None


def frame(kind: str, number: str, document: object) -> bytes:
    """Encode a server-sent event."""
    return b"event: %b\nid: %b\ndata: %b\n\n" % (kind.encode(), number.encode(), _encode(document))


def change_between(old: Page, new: Page) -> ListChange | None:
    """Return the difference between two lists; None if they do not differ."""
    before = {entry.member: entry for entry in old.entries}
    now = {entry.member: entry for entry in new.entries}
    entered = [entry for entry in new.entries if entry.member not in before]
    left = [member for member in before if member not in now]
    moved, scored = [], []
    for member, entry in now.items():
        if (was := before.get(member)) is None:
            continue
        if was.rank != entry.rank:
            moved.append(Moved(member, entry.rank, was.rank, entry.score))
        elif was.score != entry.score:
            scored.append(entry)
    order = list(now)
    is_listed_alike = (old.total, old.certain) == (new.total, new.certain)
    if not (entered or left or moved or scored) and is_listed_alike and order == list(before):
        return None
    return ListChange(new.as_of, new.total, order, entered, left, moved, scored, new.certain)


def member_change(
    member: str,
    old: Standing | None,
    new: Standing | None,
    page: Page,
    needed: Needed | None = None,
) -> MemberChange:
    """Return the change of a member's standing. `page` is the list that was read together with
    `new`; its total and `as_of` are reported."""
    lost = old is not None and new is not None and new.rank > old.rank
    above = new.above.member if lost and new is not None and new.above is not None else None
    return MemberChange(
        member=member,
        rank=None if new is None else new.rank,
        score=None if new is None else new.score,
        total=page.total,
        previous_rank=None if old is None else old.rank,
        previous_score=None if old is None else old.score,
        overtaken_by=above,
        as_of=page.as_of,
        to_rank=None if new is None else new.to_rank,
        needed=needed,
        rank_low=None if new is None else new.rank_low,
        rank_high=None if new is None else new.rank_high,
    )
