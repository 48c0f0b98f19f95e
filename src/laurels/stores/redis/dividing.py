"""Dividing a batch into calls."""

from collections.abc import Sequence

from laurels.errors import BatchTooLarge
from laurels.model.batch import Batch
from laurels.model.rules import Rules

MAX_CALL_MEMBERS = 1_000
"""The maximum number of members in one call."""
CALL_EVENTS = 10_000


def calls_of(batch: Batch, rules: Rules) -> list[tuple[Sequence[int], Batch]]:
    """Divide a batch into the calls that count it, each with the positions of its events.

    A long call would block the server for all clients, so a large batch is sent in several calls. A
    batch that is all-or-nothing or has a position must be sent in one call. The cost of a call
    depends mostly on the number of members in each scope, so this number is limited. The number of
    events of a member is not limited.
    """
    scopes = len(rules.scopes) + len(rules.rank_by)
    most = MAX_CALL_MEMBERS // scopes
    whole = range(batch.size)
    if batch.size <= most:
        return [(whole, batch)]
    if batch.atomic or batch.position is not None:
        if batch.size > CALL_EVENTS // scopes:
            raise BatchTooLarge(
                f"expected at most {CALL_EVENTS // scopes:,} events in a batch that is all or "
                f"nothing or has a position, on an index server"
                + (f" where each event counts in {scopes} scopes" if scopes > 1 else "")
                + f", got {batch.size:,}"
            )
        return [(whole, batch)]
    slots: dict[bytes, int] = {}
    event_members = [slots.setdefault(member, len(slots)) for member in batch.member_list()]
    ordered = rules.rank_by or batch.ids is not None
    shares = (
        _in_order(event_members, most)
        if ordered
        else _by_member(event_members, -(-len(slots) // most))
    )
    pieces = [
        share[first : first + CALL_EVENTS]
        for share in shares
        for first in range(0, len(share), CALL_EVENTS)
    ]
    if len(pieces) == 1:
        return [(whole, batch)]
    return list(zip(pieces, batch.taken(pieces), strict=True))


def _by_member(event_members: Sequence[int], count: int) -> list[list[int]]:
    """Divide the positions of events into `count` shares by their members, so that all events of a
    member are counted together. The order of different members' events may change, since it does
    not affect the results."""
    shares: list[list[int]] = [[] for _ in range(count)]
    for place, member in enumerate(event_members):
        shares[member % count].append(place)
    return shares


def _in_order(event_members: Sequence[int], most: int) -> list[range]:
    """Divide the positions of events into shares of at most `most` members, keeping their order.
    The order matters on a board that ranks labels, since events of several members change the same
    label's score. It also matters for events with ids: if there is not room for all ids, those of
    the first events are remembered."""
    shares: list[range] = []
    first, seen = 0, set[int]()
    for place, member in enumerate(event_members):
        if member not in seen and len(seen) == most:
            shares.append(range(first, place))
            first, seen = place, set()
        seen.add(member)
    return [*shares, range(first, len(event_members))]
