"""One board of the oracle. It keeps every event that its windows counted. For each query, it
computes and sorts the rankings again."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial

from tests.definitions import (
    ALL,
    LIMIT,
    Accepted,
    Changed,
    ColumnDef,
    Counted,
    Definition,
    Hiding,
    Place,
    Refusal,
    Row,
    Scope,
    Score,
    Verdict,
    duration_ms,
)
from tests.oracle_closing import Ranked
from tests.oracle_forms import FIRST_MS, scope_text
from tests.oracle_order import OracleOrder
from tests.oracle_rolling import RollingWindow
from tests.oracle_window import OracleWindow
from tests.oracle_windows import DecayWindow, window_of
from tests.prize_definitions import PrizesDef

Hidings = dict[str, Hiding]
"""The hidings of members that were not shown again."""


def in_effect(hidings: Hidings, member: str, now_ms: int) -> Hiding | None:
    """Return the hiding of a member that has not ended, or None."""
    hiding = hidings.get(member)
    if hiding is None or (hiding[2] is not None and now_ms >= hiding[2]):
        return None
    return hiding


def described(hiding: Hiding | None) -> tuple[str, dict[str, object] | None]:
    """Return the kind and the data of the change by which a member gets this hiding, or none."""
    if hiding is None:
        return "show", None
    return "hide", dict(zip(("reason", "since_ms", "until_ms"), hiding, strict=True))


class OracleBoard(OracleOrder):
    """A board: its definition, its windows, the event ids it remembers, and the data of its
    members."""

    def __init__(self, definition: Definition, uid: int = 0) -> None:
        super().__init__(definition)
        self.uid = uid
        self.windows = {w.called: window_of(w, definition) for w in definition.windows}
        self.accepted: dict[tuple[str, str], int] = {}
        self.profiles: dict[str, object] = {}
        self.latest_ms = FIRST_MS
        self.orders = 0
        self.changes: list[Changed] = []
        self.hidden: Hidings = {}
        """The members that were hidden on the board and not shown again."""
        self.hidden_everywhere: Hidings = {}
        """The members that are hidden on all boards."""
        self.had_prizes = definition.has_prizes

    def is_about_to_pay(self, now_ms: int) -> bool:
        """Return whether the board has or had prizes for periods that are not sealed yet."""
        unsealed = self.unsealed(now_ms)
        return bool(unsealed) and (self.definition.has_prizes or any(unsealed))

    def unsealed(self, now_ms: int) -> list[PrizesDef | None]:
        """Return the prizes of each period that has events and is to be sealed."""
        return [prizes for window in self.windows.values() for prizes in window.unsealed(now_ms)]

    def is_hidden(self, member: str, now_ms: int) -> bool:
        """Return whether a member is hidden, on this board or on all boards."""
        return self.hiding(member, now_ms) is not None

    def hiding(self, member: str, now_ms: int) -> Hiding | None:
        """Return why, since when and until when a member is hidden, on this board or else on all
        boards; None if it is not hidden."""
        own = in_effect(self.hidden, member, now_ms)
        return own or in_effect(self.hidden_everywhere, member, now_ms)

    def note_hiding(self, member: str, now_ms: int) -> None:
        """Add the change that a member was hidden or shown to the changes of the board. A member
        that is still hidden otherwise was not shown."""
        hidings = self.hidden.get(member), self.hidden_everywhere.get(member)
        kind, data = described(self.hiding(member, now_ms))
        self.changes.append(Changed(kind, member, now_ms, data=data, hidings=hidings))

    def note_hidings(self, now_ms: int) -> None:
        """Add the changes by which a board that was created or restored records its hidden
        members. It records no hidings that ended before."""
        for member in sorted({*self.hidden, *self.hidden_everywhere}, key=str.encode):
            hidings = self.hidden.get(member), self.hidden_everywhere.get(member)
            self.changes.append(Changed("", member, now_ms, hidings=hidings))
            if self.is_hidden(member, now_ms):
                self.note_hiding(member, now_ms)

    def shown(self, counted: Iterable[Counted], scope: Scope, now_ms: int) -> list[Counted]:
        """Return the events that count in a scope, without those of hidden members. In a scope that
        ranks the values of a label no event is left out, since its entries are not members."""
        within = self.within(counted, scope)
        if scope.by is not None:
            return within
        return [event for event in within if not self.is_hidden(event.member, now_ms)]

    def change(self, definition: Definition, now_ms: int) -> None:
        """Change the title, a `keep`, the start or the end, or add windows. A period that has
        already expired stays unreadable, even if the new `keep` is longer. Raise an error if the
        new end or `retain` is not possible."""
        self._ensure_end_to_come(definition, now_ms)
        self.close(now_ms)
        self.definition = definition
        self.had_prizes = self.had_prizes or definition.has_prizes
        for window in definition.windows:
            fresh = window_of(window, definition)
            current = self.windows.setdefault(window.called, fresh)
            if current is fresh:
                current.begin(now_ms)
            else:
                current.change(fresh, now_ms)

    def _ensure_end_to_come(self, new: Definition, now_ms: int) -> None:
        """Raise an error if a new end has passed already, if the windows were closed at the present
        end, or if the board would be removed at once."""
        old = self.definition
        if isinstance(old.ends, int) and new.ends != old.ends:
            is_over = now_ms > old.ends + duration_ms(old.grace)
            if is_over and any(window.closings.archive for window in self.windows.values()):
                raise Refusal("unsafe_change")
            if any(window.is_closed_at_the_end(now_ms) for window in self.windows.values()):
                raise Refusal("unsafe_change")
        if new.ends != old.ends and isinstance(new.ends, int) and new.ends <= now_ms:
            raise Refusal("unsafe_change")
        if (new.ends, new.retain) != (old.ends, old.retain) and new.is_gone(now_ms):
            raise Refusal("unsafe_change")

    def window(self, name: str | None) -> OracleWindow:
        """Return the window with this name, by default the first window."""
        name = next(iter(self.windows)) if name is None else name
        if name not in self.windows:
            raise Refusal("unknown_window")
        return self.windows[name]

    # Scopes

    def scope(self, labels: Mapping[str, str], by: str | None = None) -> Scope:
        """Return the scope with these labels, or the scope that ranks the values of the label `by`.
        Raise an error if the board does not have it."""
        if by is not None:
            if labels or by not in self.definition.rank_by:
                raise Refusal("unknown_scope")
            return Scope(by=by)
        scope = Scope(tuple(sorted(labels.items())))
        if scope.names not in self.definition.scopes:
            raise Refusal("unknown_scope")
        return scope

    def known_scopes(self) -> list[Scope]:
        """Return all scopes in which an event was ever counted, and those that the board has from
        the start: all events, and the labels whose values are ranked."""
        scopes = dict.fromkeys(Scope(by=by) for by in self.definition.rank_by)
        if () in self.definition.scopes:
            scopes[ALL] = None
        for window in self.windows.values():
            for counted in [*window.counted.values(), *window.shown.values()]:
                scopes.update(dict.fromkeys(scope for event in counted for scope in event.scopes))
        return list(scopes)

    def holding(self, names: Sequence[str], now_ms: int) -> list[Scope]:
        """Return the scopes with these label names that have a member in a readable ranking."""
        scopes = {
            scope
            for window in self.windows.values()
            for event in window.readable(now_ms)
            for scope in event.scopes
            if scope.names == tuple(names) and scope.by is None
        }
        return sorted(scopes, key=lambda scope: scope_text(scope.labels))

    def within(self, counted: Iterable[Counted], scope: Scope) -> list[Counted]:
        """Return the events that count in a scope. In a scope that ranks the values of a label, the
        member of each event is replaced by its value of this label."""
        return [self._in_scope(event, scope) for event in counted if scope in event.scopes]

    def own(self, counted: Iterable[Counted], scope: Scope, member: str) -> list[Counted]:
        """Return the events that count for one member of a scope's ranking."""
        by = scope.by
        named = [e for e in counted if (dict(e.labels).get(by) if by else e.member) == member]
        return self.within(named, scope)

    def _in_scope(self, event: Counted, scope: Scope) -> Counted:
        return event if scope.by is None else replace(event, member=dict(event.labels)[scope.by])

    def remove(self, member: str, now_ms: int) -> bool:
        """Remove a member from all rankings of members. Return whether any of these was readable
        and had the member."""
        self.close(now_ms)
        profile = self.profiles.pop(member, None)
        removed = [window.remove(member, now_ms) for window in self.windows.values()]
        if any(removed) or profile is not None:
            self.changes.append(Changed("remove", member, now_ms))
        return any(removed)

    def erase(self, member: str, token: str, now_ms: int) -> None:
        """Remove a member, with its event ids, from everything that is not closed. Put a token in
        its place in closed periods."""
        self.close(now_ms)
        self.profiles.pop(member, None)
        self.hidden.pop(member, None)
        self.accepted = {key: at for key, at in self.accepted.items() if key[0] != member}
        for window in self.windows.values():
            window.remove(member, now_ms)
            window.closings.erase(member, token)

    def clear(self, now_ms: int) -> None:
        """Remove all members and their data, after the closed periods were sealed."""
        self.profiles.clear()
        for window in self.windows.values():
            window.clear()
        self.changes.append(Changed("clear", "None", now_ms))

    def is_restorable(self) -> bool:
        """Return whether the board has sealed periods, so that it can be restored."""
        return any(window.closings.sealed for window in self.windows.values())

    def restore(self, definition: Definition) -> None:
        """Let the board go on under this definition after it was removed, without its members."""
        self.definition = definition
        self.profiles.clear()
        self.accepted.clear()
        for window in self.windows.values():
            window.restore(definition)

    def close(self, now_ms: int) -> None:
        """Close the periods that are due, as every write does first."""
        for window in self.windows.values():
            window.close(now_ms, self.ranked_at)

    def ranked_at(self, now_ms: int) -> Ranked:
        """Return who is not ranked at an instant."""
        members = [*self.hidden, *self.hidden_everywhere]
        hidden = frozenset(member for member in members if self.is_hidden(member, now_ms))
        return Ranked(self.definition.hide_zero, hidden)

    def seal(self, now_ms: int) -> list[tuple[str, str | None]]:
        """Close the periods that are due, and seal all that are closed. Return those that were not
        sealed before, each with the name of its window."""
        self.close(now_ms)
        return [
            (name, window.label_of(instance))
            for name, window in self.windows.items()
            for instance in window.closings.seal(window.start_ms)
        ]

    def standings(
        self,
        window: OracleWindow,
        label: str | None,
        scope: Scope,
        now_ms: int,
        revision: int | None = None,
    ) -> list[Place]:
        """Return the ranking of a scope in a readable period, as of a revision of the period, by
        default the newest."""
        ranked = window.ranked(label, now_ms, self.ranked_at)
        left_out = ranked.hidden | window.closings.disqualified(label, scope, revision)
        shown = [
            event
            for event in self.within(window.events(label, now_ms), scope)
            if scope.by is not None or event.member not in left_out
        ]
        erased = {} if scope.by is not None else window.closings.erased.get(label, {})
        return [
            replace(place, row=replace(place.row, member=erased.get(place.member, place.member)))
            for place in self.ranking(shown, hide_zero=ranked.hide_zero)
        ]

    # How an event counts

    def remembered(self, now_ms: int) -> list[tuple[str, str]]:
        """Return the event ids that the board still remembers."""
        dedupe_ms = duration_ms(self.definition.dedupe)
        return [key for key, since_ms in self.accepted.items() if now_ms - since_ms < dedupe_ms]

    def fold(self, event: Accepted, now_ms: int) -> Verdict:
        """Count one event or refuse it. Return its verdict. Events are folded in the order of the
        log."""
        for window in self.windows.values():
            window.advance(now_ms)
        taking = [w for w in self.windows.values() if w.takes(event.at_ms, now_ms)]
        missed = self.definition.misses(event.at_ms)
        late = [n for n, w in self.windows.items() if missed is None and w not in taking]
        verdict = partial(Verdict, event.member, refused_windows=tuple(late))
        remembered = self.remembered(now_ms)
        if event.id is not None and (event.member, event.id) in remembered:
            return verdict("duplicate")
        if not taking:
            return verdict("refused", missed or "too_late")
        if event.id is not None and len(remembered) >= self.definition.dedupe_max:
            return verdict("refused", "dedupe_full")
        self.orders += 1
        scopes = self.definition.scopes_of(event.labels)
        counted = Counted(
            event.member, self._values(event), event.at_ms, self.orders, event.labels, scopes
        )
        before, after, full = [], [], False
        for window in taking:
            ranked = window.judged(event.at_ms, now_ms)
            for scope in scopes:
                own = self._in_scope(counted, scope)
                events = self.own(ranked, scope, own.member)
                before.append(self.row(events))
                after.append(self.row([*events, window.seen(own, now_ms)]))
                full = full or self._overfills(window, own, scope)
        if full or any(row is None or self._outside(row) for row in after):
            return verdict("refused", "total_out_of_range")
        for window in taking:
            window.count(counted)
        self.changes.append(self._change_of(event, counted, taking))
        if event.id is not None:
            self.accepted[event.member, event.id] = now_ms
        return verdict("applied" if self._changed(before, after) else "unchanged")

    def _change_of(
        self, event: Accepted, counted: Counted, taking: Sequence[OracleWindow]
    ) -> Changed:
        """Return the change that readers of the board's changes get for the event that was just
        counted."""
        names = {id(window): name for name, window in self.windows.items()}
        entries = {}
        for window in taking:
            if isinstance(window, (RollingWindow, DecayWindow)):
                continue
            instance = window.instance(event.at_ms)
            for scope in counted.scopes:
                if scope.by is None:
                    own = self.own(window.counted[instance], scope, event.member)
                    newest_ms = max(each.at_ms for each in own)
                    entries[names[id(window)], instance, scope.labels] = self._row(own), newest_ms
        kind = "set" if event.absolute else "event"
        return Changed(
            kind, event.member, event.at_ms, event.id, event.labels, counted.values, entries
        )

    def _values(self, event: Accepted) -> Score:
        if not event.absolute or all(column.op != "sum" for column in self.definition.columns):
            return event.values
        every = next(w.called for w in self.definition.windows if w.unit == "all")
        row = self.row(self.own(self.windows[every].counted.get(None, []), ALL, event.member))
        return tuple(
            target - row.score[i] if row and column.op == "sum" else target
            for i, (target, column) in enumerate(
                zip(event.values, self.definition.columns, strict=True)
            )
        )

    def _outside(self, row: Row) -> bool:
        """Return whether a total is outside its range. A decayed total has no range."""
        columns = zip(row.score, self.definition.columns, strict=True)
        return row.place is None and any(not c.low <= part <= c.high for part, c in columns)

    def _overfills(self, window: OracleWindow, event: Counted, scope: Scope) -> bool:
        """Return whether an event would take its member's total in the event's period or step out
        of the bounds that `share` returns. Decay windows and boards with a `best` score have no
        such bounds."""
        if isinstance(window, DecayWindow):
            return False
        step = window.counted.get(window.instance(event.at_ms), [])
        row = self.row([event, *self.own(step, scope, event.member)])
        if row is None or self.definition.best:
            return False
        for part, column in zip(row.score, self.definition.columns, strict=True):
            low, high = share(column, window.steps)
            if column.op == "sum" and not low <= part <= high:
                return True
        return False

    def _changed(self, before: Sequence[Row | None], after: Sequence[Row | None]) -> bool:
        stamped = self.definition.tie != "member"
        return any(
            old is None
            or new is None
            or self.score_key(old) != self.score_key(new)
            or (stamped and old.stamp != new.stamp)
            for old, new in zip(before, after, strict=True)
        )


def share(column: ColumnDef, steps: int) -> tuple[int, int]:
    """Return the lowest and the highest total allowed in one of a window's `steps` steps. If every
    step keeps to these bounds, the total of the window stays within the column's range when the
    oldest steps leave."""
    low, high = column.low, column.high
    if low >= 0:
        return low, min(high, LIMIT // steps)
    if high <= 0:
        return max(low, -(LIMIT // steps)), high
    return -(-low // steps), high // steps
