"""Members that are hidden by moderators: they are counted, but not ranked. Pure.

The rankings of an index contain hidden members like all others, so no write depends on who is
hidden, and a member that is shown again stands as if it had never been hidden. Only readers leave
hidden members out: a request names them (`Exclusion`), and its result is that of the ranking
without them (`excluding.py`).
"""

from bisect import bisect_right
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from functools import cached_property

from laurels.timeline.instants import MAX_MS

from .hiding import Hiding
from .index import RankingIndex
from .ranking_key import RankingKey

MAX_ORDERED = 1_000_000
"""The maximum number of members in the cached orders of an `Exclusion`, over all rankings."""


class Exclusion:
    """The members that a board hides at one time. `is_dense` is whether the board has dense ranks.

    For each ranking that is read, this object caches which of these members are in the ranking, in
    ranking order. The order changes only if an entry of a hidden member changes; `forget` must be
    called then.
    """

    def __init__(
        self,
        members: Collection[bytes],
        *,
        is_dense: bool,
        stored_text: str = "",
        before: "Exclusion | None" = None,
    ) -> None:
        self.members = frozenset(members)
        self.is_dense = is_dense
        self.stored_text = stored_text
        """The version of the list of hidden members on an index server, if these are all members of
        this list; else empty."""
        self.before = before
        """The members of an earlier version."""
        self._orders: dict[RankingKey, list[bytes]] = {}
        self._ordered = 0
        self._parts: list[Exclusion] = []

    @cached_property
    def texts(self) -> list[str]:
        """The members as texts, in the order of the members."""
        return [member.decode() for member in sorted(self.members)]

    def divided(self, count: int, part_of: Callable[[bytes, int], int]) -> "list[Exclusion]":
        """Return the members of each of `count` parts. `part_of` returns the part of a member. The
        result is cached, and `count` must be the same in all calls."""
        if not self._parts:
            members: list[list[bytes]] = [[] for _ in range(count)]
            for member in self.members:
                members[part_of(member, count)].append(member)
            earlier: list[Exclusion | None] = [None] * count
            if self.before is not None:
                earlier = [*self.before.divided(count, part_of)]
            self._parts = [
                Exclusion(part, is_dense=self.is_dense, stored_text=self.stored_text, before=before)
                for part, before in zip(members, earlier, strict=True)
            ]
        return self._parts

    def order(self, index: RankingIndex, key: RankingKey) -> list[bytes]:
        """Return the excluded members that a ranking has, in its order."""
        order = self._orders.get(key)
        if order is None:
            order = self._find(index, key)
            if self._ordered + len(order) > MAX_ORDERED:
                self.forget()
            self._orders[key] = order
            self._ordered += 1 + len(order)
        return order

    def forget(self) -> None:
        """Forget the cached orders, since an entry of one of the members may have changed."""
        self._orders.clear()
        self._ordered = 0

    def _find(self, index: RankingIndex, key: RankingKey) -> list[bytes]:
        """Read the result of `order` from an index. O(min(members of the ranking, hidden
        members))."""
        size = index.size(key)
        if size <= len(self.members):
            listed = [member.encode() for member in index.slice(key, 0, size).members]
            return [member for member in listed if member in self.members]
        members = list(self.members)
        found = zip(index.positions(key, members), members, strict=True)
        return [member for position, member in sorted(found) if position >= 0]


class HiddenMembers:
    """The hidden members of one board, or those of all boards, with their hidings.

    Those of a board include the members that are hidden `everywhere`: on all boards of the store.
    `own` has the hidings of this object, `shared` those of `everywhere`. `exclusion` is the cached
    result of `at`, None if nothing is cached.
    """

    def __init__(self, hidings: Mapping[bytes, Hiding] | None = None) -> None:
        self.everywhere: HiddenMembers | None = None
        self.own = dict(hidings or {})
        self.shared: Mapping[bytes, Hiding] = {}
        self.version = 0
        """The number of changes since this object was made."""
        self.stored_version = 0
        """The version of the list that an index server stores, as of this copy of it."""
        self.exclusion: Exclusion | None = None
        self._stored: Exclusion | None = None
        """The last exclusion that has a `stored_text`."""
        self._from_ms, self._until_ms = MAX_MS, MAX_MS
        """The cached exclusion is valid from the first instant to just before the second one."""
        self._seen = 0
        """The version of `everywhere` from which the cached exclusion was made."""
        self._ends: list[int] | None = None
        """The ends of the hidings, in order; None if they have to be collected anew."""

    def __bool__(self) -> bool:
        return bool(self.own or self.shared)

    def share(self, everywhere: "HiddenMembers") -> None:
        """Include the members that are hidden on all boards."""
        self.everywhere, self.shared = everywhere, everywhere.own

    def items(self) -> Iterator[tuple[bytes, Hiding]]:
        """Yield each member that has a hiding of this object, with that hiding, in the order of the
        members. Hidings of `everywhere` are left out."""
        return iter(sorted(self.own.items()))

    def hidings(self, now_ms: int) -> Iterator[tuple[bytes, Hiding, bool]]:
        """Yield each member that is hidden at an instant, in the order of the members, with its
        hiding, and whether it is hidden everywhere. If a member is hidden on the board and
        everywhere, its hiding is that of the board."""
        for member in sorted(self.shared.keys() | self.own.keys()):
            own, shared = self.hiding(member, now_ms), self.shared.get(member)
            if own is not None:
                yield member, own, False
            elif shared is not None and not shared.is_over(now_ms):
                yield member, shared, True

    def hiding(self, member: bytes, now_ms: int) -> Hiding | None:
        """Return the own hiding of a member; None if it has none at `now_ms`."""
        hiding = self.own.get(member)
        return None if hiding is None or hiding.is_over(now_ms) else hiding

    def effective(self, member: bytes, now_ms: int) -> Hiding | None:
        """Return the hiding of a member on the board or else everywhere; None if the member is not
        hidden at `now_ms`."""
        own = self.hiding(member, now_ms)
        if own is not None or self.everywhere is None:
            return own
        return self.everywhere.hiding(member, now_ms)

    def stored(self, member: bytes) -> Hiding | None:
        """Return the own hiding of a member, even if its end has passed; None if there is none."""
        return self.own.get(member)

    def hide(self, member: bytes, hiding: Hiding) -> None:
        """Hide a member. This replaces an earlier hiding."""
        self.own[member] = hiding
        self._changed()

    def show(self, member: bytes) -> bool:
        """Remove the own hiding of a member; return whether it had one."""
        self._changed()
        return self.own.pop(member, None) is not None

    def replace(self, hidings: Mapping[bytes, Hiding], stored_version: int) -> None:
        """Replace all own hidings by those that an index server stores."""
        self.own.clear()
        self.own.update(hidings)
        self.stored_version = stored_version
        self._changed()

    @property
    def stored_text(self) -> str:
        """The version of the hidden members on an index server: that of the members hidden on this
        board and, after a separator, that of the members hidden on all boards. It is empty if no
        member was ever hidden."""
        everywhere = 0 if self.everywhere is None else self.everywhere.stored_version
        own = self.stored_version
        return f"{own}:{everywhere}" if own or everywhere else ""

    def _changed(self) -> None:
        self.version += 1
        self.exclusion = self._ends = None

    def ended(self, now_ms: int) -> list[bytes]:
        """Return the members whose own hiding has ended and is not removed yet. O(1) if there are
        none."""
        ends = self._sorted_ends()
        if not ends or ends[0] > now_ms:
            return []
        return [member for member, each in self.items() if each.is_over(now_ms)]

    def next_end_ms(self, now_ms: int) -> int:
        """Return the next instant after `now_ms` at which a hiding ends; MAX_MS if none does."""
        end_ms = MAX_MS if self.everywhere is None else self.everywhere.next_end_ms(now_ms)
        if not self.own:
            return end_ms
        ends = self._sorted_ends()
        at = bisect_right(ends, now_ms)
        return min(end_ms, ends[at]) if at < len(ends) else end_ms

    def _sorted_ends(self) -> list[int]:
        """Return the ends of the own hidings, in order."""
        if self._ends is None:
            ends = [each.until_ms for each in self.own.values() if each.until_ms is not None]
            self._ends = sorted(ends)
        return self._ends

    def at(self, now_ms: int, *, is_dense: bool) -> Exclusion | None:
        """Return the members that are hidden at an instant, None if there are none. `is_dense` is
        whether the board has dense ranks."""
        seen = 0 if self.everywhere is None else self.everywhere.version
        is_within = self._from_ms <= now_ms < self._until_ms
        if self.exclusion is None or not is_within or seen != self._seen:
            hidden = [member for member, _, _ in self.hidings(now_ms)]
            self.exclusion = self._excluded(hidden, is_dense=is_dense)
            self._from_ms, self._until_ms = now_ms, self.next_end_ms(now_ms)
            self._seen = seen
        return self.exclusion if self.exclusion.members else None

    def _excluded(self, members: Collection[bytes], *, is_dense: bool) -> Exclusion:
        is_complete = len(members) == len(self.own.keys() | self.shared.keys())
        if not (is_complete and members and self.stored_text):
            return Exclusion(members, is_dense=is_dense)
        before, text = self._stored, self.stored_text
        if before is not None:
            before.before = None  # one earlier version is enough
        excluded = Exclusion(members, is_dense=is_dense, stored_text=text, before=before)
        self._stored = excluded
        return excluded

    def forget(self) -> None:
        """Drop the cached exclusion, since entries of hidden members, or the rank style of the
        board, may have changed."""
        self.exclusion = None

    def counted(self, members: Iterable[bytes]) -> None:
        """Forget the cached orders if events of a hidden member were counted, since its entries may
        have changed. `members` are all members whose events were counted."""
        if self.exclusion is not None and not self.exclusion.members.isdisjoint(members):
            self.exclusion.forget()
