"""The closed periods of a window of the oracle."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from tests.definitions import Counted, Refusal, Scope
from tests.oracle_forms import FIRST_MS
from tests.prize_definitions import PrizesDef

Instance = str | int | None
"""The period or step of an event: the label of a period, the number of a step, or None for all
time."""


class Ranked(NamedTuple):
    """Who is not ranked in a period: with `hide_zero` members whose score is 0, and the hidden
    members."""

    hide_zero: bool
    hidden: frozenset[str]


class Closings:
    """The closed periods of a window. `closed` has, for each of them, the members that were not
    ranked when it became final. `erased` has the tokens of members that were erased later.
    `cleared` has the periods that only the archive has, since the board was cleared later. `sealed`
    has the sealed periods, and `archived` those of them that can be read: the newest `length` ones,
    or all if `length` is 0. `awarded` has the prizes that the window had when a period was closed,
    and `corrections` the members that were disqualified from a period, each with the scope that it
    left, or with None if it left all scopes."""

    def __init__(self, *, archive: bool, length: int, prizes: PrizesDef | None) -> None:
        self.archive = archive
        self.length = length
        self.prizes = prizes
        self.awarded: dict[Instance, PrizesDef | None] = {}
        self.corrections: dict[Instance, list[tuple[str, Scope | None]]] = {}
        self.archived: set[Instance] = set()
        self.since_ms = FIRST_MS
        self.closed: dict[Instance, Ranked] = {}
        self.sealed: set[Instance] = set()
        self.erased: dict[Instance, dict[str, str]] = {}
        self.cleared: set[Instance] = set()

    def is_due(
        self, instance: Instance, counted: Sequence[Counted], final_ms: int | None, now_ms: int
    ) -> bool:
        """Return whether a period is due to be closed. An empty one never is."""
        if not self.archive or instance in self.closed or final_ms is None:
            return False
        return self.since_ms < final_ms <= now_ms and any(event.scopes for event in counted)

    def close(
        self,
        instance: Instance,
        counted: Sequence[Counted],
        final_ms: int | None,
        now_ms: int,
        ranked_at: Callable[[int], Ranked],
    ) -> None:
        """Close a period if it is due. `ranked_at` returns who is not ranked at an instant."""
        if final_ms is not None and self.is_due(instance, counted, final_ms, now_ms):
            self.closed[instance] = ranked_at(final_ms)
            self.awarded[instance] = self.prizes

    def erase(self, member: str, token: str) -> None:
        """Put a token in the place of a member in all closed periods, unless it was erased from
        them before."""
        for instance in self.closed:
            self.erased.setdefault(instance, {}).setdefault(member, token)

    def clear(self) -> None:
        """Record that from now on only the archive has the closed periods."""
        self.cleared |= self.closed.keys()

    def holds(self, instance: Instance, member: str) -> bool:
        """Return False if only the archive still has a member's entry of this period, because the
        board was cleared or the member was erased after the period was closed; otherwise True."""
        return instance not in self.cleared and member not in self.erased.get(instance, ())

    def seal(self, start_ms: Callable[[Instance], int]) -> list[Instance]:
        """Seal all closed periods, and return those that were not sealed before. `start_ms` returns
        the start of a period."""
        new = sorted(self.closed.keys() - self.sealed, key=start_ms)
        self.sealed.update(new)
        self.archived.update(new)
        if new and self.archive and self.length:
            self.archived = {*sorted(self.archived, key=start_ms)[-self.length :]}
        return new

    def revision(self, instance: Instance) -> int:
        """Return the number of corrections of a period."""
        return len(self.corrections.get(instance, ()))

    def ensure_revision(self, instance: Instance, revision: int) -> None:
        """Raise an error unless a period is sealed and has this revision."""
        if instance not in self.archived:
            raise Refusal("not_sealed")
        if revision > self.revision(instance):
            raise Refusal("unknown_revision")

    def disqualified(self, instance: Instance, scope: Scope, revision: int | None) -> set[str]:
        """Return the members that were disqualified from a scope's ranking up to a revision, by
        default the newest."""
        corrections = self.corrections.get(instance, [])[:revision]
        return {member for member, left in corrections if left is None or left == scope}

    def counted_name(self, instance: Instance, member: str) -> str:
        """Return the member under whose id the events of a closed period were counted, if its
        standings now show this name."""
        erased = self.erased.get(instance, {})
        return next((name for name, token in erased.items() if token == member), member)

    def is_unsealed(
        self, instance: Instance, counted: Sequence[Counted], final_ms: int | None, now_ms: int
    ) -> bool:
        """Return whether a period is closed, or due to be closed, and is not sealed yet."""
        if instance in self.closed:
            return instance not in self.sealed
        return self.is_due(instance, counted, final_ms, now_ms)

    def unsealed(
        self, instance: Instance, counted: Sequence[Counted], final_ms: int | None
    ) -> list[PrizesDef | None]:
        """Return the prizes of a period if it is to be sealed, or nothing if it is not."""
        if instance in self.closed:
            return [] if instance in self.sealed else [self.awarded[instance]]
        if final_ms is None or not self.is_due(instance, counted, final_ms, final_ms):
            return []
        return [self.prizes]

    def state(
        self, instance: Instance, counted: Sequence[Counted], final_ms: int, now_ms: int
    ) -> str:
        """Return the state of a period that has ended."""
        if instance in self.closed:
            return "sealed" if instance in self.sealed else "closed"
        if now_ms < final_ms:
            return "grace"
        if not self.archive or final_ms <= self.since_ms:
            return "final"
        return "closed" if any(event.scopes for event in counted) else "sealed"

    def change(self, other: Closings, now_ms: int) -> None:
        """Take over the archive settings of a new definition. If the window had no archive, only
        periods that become final after `now_ms` are closed."""
        if other.archive and not self.archive:
            self.since_ms = now_ms
        self.archive, self.length, self.prizes = other.archive, other.length, other.prizes
