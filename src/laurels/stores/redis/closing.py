"""Closes the due periods of boards, and keeps this process's copy of the closed and sealed periods.

The shards of a board freeze a period before its closing is recorded in the first shard, so the
standings are those of one moment although no call spans two shards. Any number of processes may do
this at once, and any of them may stop at any point: freezing a period twice changes nothing, and
only one process records its closing.

Each process has a copy of these records, in the state of the board. A read of the first shard is
refused if the copy is outdated (`ClosingsMoved`).
"""

from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Collection,
    Mapping,
    Sequence,
)

from msgspec.structs import replace

from laurels.core.board_record import BoardRecord
from laurels.core.board_state import BoardState, record_of
from laurels.core.changes.record_blocks import close_block
from laurels.core.closing import (
    ClosedPeriod,
    DuePeriod,
    WindowClosing,
    due_periods,
    final_ms_of,
)
from laurels.core.lifecycle import next_boundary
from laurels.core.ranking_key import RankingKey
from laurels.core.requests import ReadRequest
from laurels.errors import UnsafeChange
from laurels.model.board import Board
from laurels.model.validation import quoted
from laurels.stores.intake.closing import close_records
from laurels.timeline.instants import MAX_MS, MIN_MS

from .outdated import ClosingsMoved
from .protocols import FollowedIndex
from .remote import Opened
from .unrecorded import (
    begun_before,
    decisive_boundaries,
    final_instances,
    may_be_open,
    next_final_ms,
    rolling_names,
)

UNKNOWN = -1
"""The number of changes of the closings of a board whose closings this process has not read."""
LISTED = 200
"""The number of scopes that one call searches for entries."""

Opens = Callable[[BoardState], Opened]
Place = tuple[str, int]
"""A window and the instance of one of its periods."""


class ServerClosings:
    """The closed and sealed periods of the boards that this process knows. `opened_as` returns a
    board in the form that calls of the index take."""

    def __init__(self, index: FollowedIndex, opened_as: Opens, *, event_time: bool) -> None:
        self._index = index
        self._opened_as = opened_as
        self._event_time = event_time
        self.unsealed: dict[str, set[int]] = {}
        """By ledger, the numbers of boards with closed periods that are not sealed, as far as this
        process knows, and of boards that are to be removed when all their periods are sealed."""
        self.unexpired: dict[int, frozenset[tuple[str, int]]] = {}
        """By the number of a board, the windows and instances of its sealed periods whose keys are
        not known to expire."""
        self.update_hidden: Callable[[BoardState], Awaitable[None]] = _unchanged
        """Reads who is hidden on a board."""
        self.rotate_steps: Callable[[BoardState, int], Awaitable[None]] = _unrotated
        """Rotates the rolling windows of a board to their steps at an instant, in the scope of all
        events."""
        self.rotate_scopes: Callable[[BoardState, int], Awaitable[None]] = _unrotated
        """Rotates the rolling windows of a board to their steps at an instant, in all other
        scopes."""

    async def load(self, state: BoardState) -> None:
        """Read which periods are closed and sealed. One call."""
        stored = await self._index.load_closings(self._opened_as(state), [*state.closing])
        read = {
            name: WindowClosing(
                closing.since_ms,
                closing.open,
                trimmed=stored.trimmed.get(name),
                floor=stored.recorded.get(name),
                cleared=closing.cleared,
            )
            for name, closing in state.closing.items()
        }
        for (window, instance), record in stored.records.items():
            closing = read[window]
            if isinstance(record, ClosedPeriod):
                closing.closed[instance] = record
            else:
                closing.sealed[instance] = record
        for name, closing in read.items():
            closing.open = {each for each in closing.open if may_be_open(state, name, each, read)}
        state.closing, state.closings = read, stored.changes
        state.excluded.clear()
        state.views.clear()
        self._note_unexpired(state, stored.unexpired)

    def _note_unexpired(self, state: BoardState, unexpired: frozenset[tuple[str, int]]) -> None:
        self.unexpired[state.number] = unexpired
        if unexpired or any(closing.closed for closing in state.closing.values()):
            self.note_unsealed(state)
        else:
            self.forget(state.board.ledger, state.number)

    async def record_expiry(self, state: BoardState, window: str, instance: int) -> None:
        """Record that the keys of a sealed period expire."""
        await self._index.record_expiry(self._opened_as(state), window, instance)
        left = self.unexpired.get(state.number, frozenset())
        self._note_unexpired(state, left - {(window, instance)})

    def note_unsealed(self, state: BoardState) -> None:
        """Record that a board has periods to be sealed."""
        self.unsealed.setdefault(state.board.ledger, set()).add(state.number)

    def forget(self, ledger: str, number: int) -> None:
        """Record that a board has no periods to be sealed into a ledger."""
        self.unexpired.pop(number, None)
        numbers = self.unsealed.get(ledger, set())
        numbers.discard(number)
        if not numbers:
            self.unsealed.pop(ledger, None)

    async def ensure_loaded(self, state: BoardState) -> None:
        """Read which periods are closed and sealed, unless this process has read it before."""
        if state.closing and state.closings == UNKNOWN:
            await self.load(state)

    async def find_open(self, state: BoardState, now_ms: int | None = None) -> None:
        """Read which periods that are not closed yet have entries. With `now_ms`, rolling windows
        are rotated to this time first. Without it, boundaries may be among these periods at which
        such a window will have nothing left to show."""
        rotates = bool(rolling_names(state))
        in_scopes = set[Place]()
        if now_ms is not None:
            await self.ensure_loaded(state)
            if rotates:
                in_scopes = await self._rotate(state, now_ms)
            in_scopes |= await self._ended_in_scopes(state, now_ms)
        await self._find_open(state, in_scopes, empty=False, rotated_ms=now_ms)

    async def find_all_open(self, state: BoardState) -> None:
        """Read which periods are not closed yet, including those that have lost all their entries,
        and boundaries at which a rolling window will have nothing left to show."""
        await self.ensure_loaded(state)
        await self._find_open(state, begun_before(state), empty=True)

    async def _ended_in_scopes(self, state: BoardState, now_ms: int) -> set[Place]:
        """Return the places of calendar periods that are final, have no record yet, and have
        entries in other scopes than that of all events only. If every final period is recorded,
        this makes no call."""
        is_due = {*final_instances(state, {}, now_ms)} - rolling_names(state)
        if not is_due or not state.rules.scoped:
            return set()
        found = {*await self._ranked(state, empty=True), *begun_before(state)}
        places = set[Place]()
        for name, instance in found - await self._ranked(state, empty=False):
            if name not in is_due or not may_be_open(state, name, instance, state.closing):
                continue
            window = state.rules.windows[name]
            is_final = final_ms_of(window, window.period_of(instance)) <= now_ms
            if is_final and await self._is_ranked_in_scopes(state, (name, instance), now_ms):
                places.add((name, instance))
        return places

    async def _rotate(self, state: BoardState, now_ms: int) -> set[Place]:
        """Rotate the rolling windows of a board to `now_ms`. So the index keeps what they showed at
        the boundaries before. Return the places at which other scopes have entries, of windows in
        which the scope of all events has none at the last boundary, or at the end of the board.

        Only for such a window the other scopes are rotated, which takes O(scopes) if that was not
        done before. In other windows, the scope of all events has entries at every open boundary,
        since earlier boundaries were closed before an event was counted in it."""
        await self.rotate_steps(state, now_ms)
        decisive = decisive_boundaries(state, now_ms)
        if not decisive or not state.rules.scoped:
            return set()
        lacking = decisive - await self._ranked(state, empty=False)
        if not lacking:
            return set()
        await self.rotate_scopes(state, now_ms)
        running = {
            name: (window := state.rules.windows[name]).instance_of(window.period_at(now_ms))
            for name, _ in lacking
        }
        places = {
            (name, step)
            for name, step in await self._ranked(state, empty=True)
            if name in running and step < running[name]
        }
        for place in lacking & running.items():  # nothing is kept of the step at the board's end
            if await self._is_ranked_in_scopes(state, place, now_ms):
                places.add(place)
        return places

    async def _ranked(self, state: BoardState, *, empty: bool) -> set[Place]:
        """Return the places at which the scope of all events has entries or, with `empty`, of which
        any scope has a ranking."""
        keys = await self._index.keys(self._opened_as(state), empty=empty)
        return {(key.window, key.instance) for key in keys}

    async def _find_open(
        self,
        state: BoardState,
        more: Collection[Place],
        *,
        empty: bool,
        rotated_ms: int | None = None,
    ) -> None:
        """Find the open periods: those of which there is a ranking, and `more`."""
        await self.ensure_loaded(state)
        keys = await self._index.keys(self._opened_as(state), empty=empty)
        for name, closing in state.closing.items():
            instances = {key.instance for key in keys if key.window == name}
            window = state.rules.windows[name]
            # The events of a step also count in what the window shows at the ends of later steps.
            if window.steps and instances:
                newest = window.period_of(max(instances))
                since_ms = newest.start_ms if rotated_ms is None else rotated_ms
                # a step that has ended is one of which the boundary is kept, and no more may follow
                if rotated_ms is None or newest.end_ms >= window.period_at(rotated_ms).end_ms:
                    instances.update(window.archived_with(max(instances), since_ms))
            instances.update(instance for other, instance in more if other == name)
            closing.open = {
                each for each in instances if may_be_open(state, name, each, state.closing)
            }

    async def close_due(self, state: BoardState, now_ms: int) -> int:
        """Close the periods of a board that are due at `now_ms`, in the order of their ends. Return
        how many this process has closed. If nothing is due, this costs one comparison."""
        if now_ms < state.final_ms:
            return 0
        closed = 0
        if state.rules.closing:
            closed = await self._close_final(state, now_ms, is_unsure=state.final_ms == MIN_MS)
        state.final_ms = next_final_ms(state, now_ms)
        return closed

    async def _close_final(self, state: BoardState, now_ms: int, *, is_unsure: bool) -> int:
        """Close the periods of a board that are final, and return how many were closed. `is_unsure`
        means that this process does not know which periods are frozen, since it has just begun, or
        since the server has refused an event in a frozen period.

        The periods are frozen before they are searched for entries. Otherwise another process could
        count an event in a period between the search and the freezing, and the period would never
        be closed."""
        positions: Mapping[str, str] = {}
        if not self._event_time:
            positions = await self._index.positions(self._opened_as(state))
        await self.ensure_loaded(state)
        floors = final_instances(state, positions, now_ms)
        in_scopes: Collection[Place] = ()
        if floors:
            await self._index.freeze(self._opened_as(state), floors, now_ms)
            in_scopes = await self._rotate(state, now_ms)
        await self._find_open(state, {*in_scopes, *begun_before(state)}, empty=True)
        due = due_periods(state, positions, now_ms)
        if due:
            filled = await self._filled(state, due, in_scopes, now_ms)
            return await self._close(state, filled, floors, now_ms)
        # the frozen periods are empty, but who plans an event in one has to learn that it is frozen
        if floors and is_unsure:
            await self._index.record_floors(self._opened_as(state), floors)
            await self.load(state)
        return 0

    async def _filled(
        self,
        state: BoardState,
        due: Sequence[DuePeriod],
        in_scopes: Collection[Place],
        now_ms: int,
    ) -> list[DuePeriod]:
        """Return the due periods in which any scope has an entry. `in_scopes` is the result of
        `_rotate`."""
        # This process may not know yet which members other processes have hidden.
        await self.update_hidden(state)
        ranked, filled = await self._ranked(state, empty=False), list[DuePeriod]()
        for each in due:
            place = each.window, each.instance
            is_filled = place in ranked or place in in_scopes
            if not is_filled and not state.rules.windows[each.window].steps:
                is_filled = await self._is_ranked_in_scopes(state, place, now_ms)
            if is_filled:
                filled.append(each)
        return filled

    async def _close(
        self,
        state: BoardState,
        filled: Sequence[DuePeriod],
        floors: Mapping[str, int],
        now_ms: int,
    ) -> int:
        """Record the closing of frozen periods in which any scope has an entry. `floors` has, by
        window, the newest of all frozen periods."""
        opened, closed = self._opened_as(state), 0
        definition = state.board.to_json()
        for each, record in zip(filled, close_records(state, filled, now_ms), strict=True):
            hidden = [
                member
                for member, hiding, _ in state.hidden.hidings(each.final_ms)
                if hiding.since_ms <= each.final_ms
            ]
            period = ClosedPeriod(now_ms, state.rules.hide_zero, tuple(hidden), definition)
            block = close_block(state.rules, record)
            closed += await self._index.record_close(
                opened, each.window, each.instance, period, block
            )
        await self._index.record_floors(opened, floors)
        await self.load(state)
        return closed

    async def _is_ranked_in_scopes(self, state: BoardState, place: Place, now_ms: int) -> bool:
        """Return whether any scope other than that of all events has an entry of a period.
        O(scopes)."""
        async for scopes in self._other_scopes(state):
            keys = [RankingKey(state.number, *place, scope) for scope in scopes]
            if await self._has_entries(state, keys, now_ms):
                return True
        return False

    async def _other_scopes(self, state: BoardState) -> AsyncIterator[Sequence[str]]:
        """Yield the scopes other than that of all events: first the rankings by a label, then the
        others, LISTED at a time."""
        specs, opened = state.rules.specs, self._opened_as(state)
        if by_label := [spec.name for spec in specs if spec.by]:
            yield by_label
        for form in dict.fromkeys(spec.name for spec in specs if spec.name and not spec.by):
            scopes = await self._index.scopes(opened, form, "", LISTED)
            while scopes:
                yield scopes
                scopes = await self._index.scopes(opened, form, scopes[-1], LISTED)

    async def _has_entries(
        self, state: BoardState, keys: Sequence[RankingKey], now_ms: int
    ) -> bool:
        """Return whether any of these rankings has an entry."""
        due_ms = next_boundary(state.rules, now_ms)
        while True:
            opened, requests = self._opened_as(state), [ReadRequest(key) for key in keys]
            try:
                read = await self._index.read(opened, requests, now_ms=now_ms, due_ms=due_ms)
            except ClosingsMoved:
                await self.load(state)
            else:
                return any(result.total for result in read.results)


async def _unchanged(_: BoardState) -> None:
    return None


async def _unrotated(_: BoardState, __: int) -> None:
    return None


def is_settled(state: BoardState, now_ms: int) -> bool:
    """Return whether all periods of a board that has ended are final and sealed, as far as this
    process knows."""
    if any(closing.open or closing.closed for closing in state.closing.values()):
        return False
    windows = [state.rules.windows[name] for name in state.rules.closing]
    last_ms = max(MIN_MS, state.rules.ends_ms - 1)
    return all(final_ms_of(each, each.period_at(last_ms)) <= now_ms for each in windows)


def may_be_unpaid(state: BoardState) -> bool:
    """Return whether the ledger of a board may have payouts of it. The present definition does not
    say so, since the prizes may have been taken from it."""
    return bool(state.board.ledger) and state.may_have_payouts


def ensure_ledger_stays(state: BoardState, changed: Board) -> None:
    """Raise UnsafeChange if a board would get another ledger than the one that has its closed
    periods."""
    if changed.ledger != state.board.ledger and any(
        closing.closed or closing.sealed for closing in state.closing.values()
    ):
        raise UnsafeChange(
            f"ledger cannot change: {quoted(state.board.ledger)} has closed periods of the board"
        )


def first_closings(state: BoardState) -> dict[str, WindowClosing]:
    """Return the part of the closings that is stored with the definition of a board: since when
    each window closes its periods, and which periods were closed when the board was cleared."""
    return {
        name: WindowClosing(closing.since_ms, cleared=closing.cleared)
        for name, closing in state.closing.items()
    }


def archived_only(state: BoardState) -> dict[str, int]:
    """Return, by window, the newest instance up to which only the archive has the standings."""
    return {
        name: closing.cleared
        for name, closing in state.closing.items()
        if closing.cleared is not None
    }


def answering_from_archive(state: BoardState) -> BoardRecord:
    """Return the definition of a board with the next version. Of the sealed periods before the
    first one that is not sealed, only the archive has the standings from then on."""
    closing = first_closings(state)
    for name, each in state.closing.items():
        first = min(each.closed, default=MAX_MS)
        newest = max([instance for instance in each.sealed if instance < first], default=None)
        if newest is not None:
            closing[name] = replace(closing[name], cleared=max(newest, each.cleared or newest))
    return record_of(replace(state, version=state.version + 1, closing=closing))


def renewed(state: BoardState) -> BoardRecord:
    """Return the definition of a board with the next version, and no other change."""
    return record_of(replace(state, version=state.version + 1, closing=first_closings(state)))
