"""The synchronous verbs: the class that `laurels.open` returns."""

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import TracebackType
from typing import Any, Self, overload

from msgspec import UNSET

from laurels.core.archive_pieces import ArchivePieces, SealedPage
from laurels.core.archived import Archived, SealedInfo, VerifiedPeriod
from laurels.core.between import Bound
from laurels.core.board_queries import HiddenOn, Periods, Scopes, scope_after
from laurels.core.changes.answers import ChangedBoards, ChangePage, DeletedBoard
from laurels.core.changes.cursor import checked_limit
from laurels.core.clock_status import ClockStatus
from laurels.core.commands import (
    ChangeBoard,
    ClearBoard,
    ConfirmPayout,
    CreateBoard,
    DeleteBoard,
    DisqualifyMember,
    EraseMember,
    HideEverywhere,
    HideMember,
    Mend,
    RemoveMember,
    SetData,
    ShowEverywhere,
    ShowMember,
    SourcePosition,
    Submit,
    SubmitMany,
    UndeleteBoard,
)
from laurels.core.due_payouts import BoardSelection, WaitingPayouts
from laurels.core.erasing import Erasure
from laurels.core.hiding import HiddenMember
from laurels.core.hot_report import HotReport
from laurels.core.member_queries import (
    Around,
    Card,
    EntriesOf,
    NeededFor,
    RankOf,
    RanksOf,
    StandingOf,
    StandingsOf,
)
from laurels.core.mending import RankingEntries, StoredEntry
from laurels.core.payout_queries import PayoutsOf
from laurels.core.payouts import Payout, PayoutPage, PayoutState, Revision
from laurels.core.queries import AtRank, Count, Range, ScoreAtPercentile, Top
from laurels.core.query_members import checked_members, ensure_member
from laurels.core.rank import Rank
from laurels.core.receipt import Receipt, Receipts
from laurels.core.removed_boards import RestorableBoard
from laurels.core.settling import Settle, Settlement
from laurels.core.standing import FIRST, Entry, Needed, Page, PeriodInfo, Standing, rank_or_none
from laurels.core.stats import BoardStats, CheckReport, Sealed, Stats
from laurels.errors import BeyondHead
from laurels.model.board import Board
from laurels.model.event import Value, at_ms
from laurels.model.labels import label_pairs
from laurels.model.score import Score
from laurels.stores.base import Store
from laurels.stores.intake.accept import warn_if_all_refused
from laurels.stores.intake.tags import new_token
from laurels.wire.audit_page import AuditPage

from .recording import Administration

EXPORT_CHUNK = 1_000
POLL_SECONDS = 0.1
"""The default interval at which new changes are polled."""


class Leaderboards:
    """Boards on one deployment. Open one with `laurels.open`; use it from any thread.

    Every method that names a board raises `UnknownBoard` if there is none of that name. Every
    method raises `Closed` after `close`, and `Forked` in a child of the process that opened it.
    `window` is a window's name, by default the board's first; `period` is the label of one of its
    periods, by default the current one; `revision` is the number of a revision of a sealed period,
    counted from 0, by default the newest. A query just after a boundary of a large rolling window
    may raise `NotReady`; it succeeds when it is repeated.

    On a board with scopes, a query with `labels` reads the scope of these labels: `lb.top("gifts",
    labels={"room": "42"})`. Without labels it reads the scope of all events. A query with `by`
    ranks the values of a label: `lb.top("gifts", by="room")`. UnknownScope is raised if the board
    has no such scope.
    """

    def __init__(self, store: Store, administration: Administration | None = None) -> None:
        """Serve the boards of a store. Administrative calls go through `administration`, which may
        record them; by default they go to the store."""
        self._store = store
        self._administration = store if administration is None else administration
        self._ask = store.ask
        self._cached_view = store.cached_view

    # Boards

    def create(self, board: Board | Mapping[str, Any], *, exist_ok: bool = False) -> Board:
        """Create a board from a `Board` or its JSON form, and return it.

        With `exist_ok`, an equal existing board is accepted. Raises BoardInvalid (with every
        fault), BoardExists.
        """
        defined = board if isinstance(board, Board) else Board.from_json(board)
        return self._administration.write(CreateBoard(defined, exist_ok))

    def change(self, name: str, /, **changes: Any) -> Board:
        """Change a board's `title`, `labels`, `keep`, `changes`, `changes_max`, `close_wait`,
        `head`, `hide_zero`, `starts`, `ends`, `retain`, `max_age` or `ledger`, or add `windows`,
        `scopes` or labels to `rank_by`. Added windows, scopes and labels count events from now on.

        Any other change, or removing a window, scope or label, raises UnsafeChange with the
        reasons.
        """
        return self._administration.write(ChangeBoard(name, changes))

    def get(self, name: str) -> Board:
        """Return the definition of a board."""
        return self._store.definition(name)

    def boards(self) -> list[Board]:
        """Return all definitions, sorted by name."""
        return self._store.definitions()

    def clear(self, name: str) -> None:
        """Remove all members of a board with their data, and keep its definition, its hidden
        members, the ids of its events and the positions of its sources.

        Its sealed periods and payouts stay. Closed periods are sealed first. Raises PayoutsOpen if
        the board has payouts that are not confirmed, PeriodsUnsealed, NotOnIndexServer. O(1),
        besides the sealing.
        """
        return self._administration.write(ClearBoard(name))

    def delete(self, name: str) -> None:
        """Delete a board and all it contains. Its sealed periods and its payouts stay, and
        `undelete` restores a board that has some.

        Closed periods are sealed first. Raises PayoutsOpen if the board has payouts that are not
        confirmed, PeriodsUnsealed.
        """
        return self._administration.write(DeleteBoard(name))

    def undelete(self, board: str, *, name: str | None = None, uid: str | None = None) -> Board:
        """Restore a board that was deleted, or removed by its `retain`, and return its definition.

        The board has its uid, definition, sealed periods, payouts, hidden members and positions of
        sources again. Its members and event ids are gone, so its running rankings begin empty. A
        `retain` that is over is left out of its definition. If a `name` is given, it becomes the
        board's name. If several removed boards had the name `board`, the one that was removed last
        is restored, or the one with the given `uid`.

        Raises NotRestorable if there is no such board with sealed periods, BoardExists if the name
        is taken, BoardInvalid, NotOnIndexServer. O(sealed periods).
        """
        return self._administration.write(UndeleteBoard(board, name, uid))

    def restorable_boards(self) -> list[RestorableBoard]:
        """Return the removed boards that `undelete` can restore, in the order of their removal.

        Each has the number of its sealed periods and payouts. O(removed boards + payouts).
        """
        return self._store.restorable_boards()

    # Writes

    def submit(
        self,
        board: str,
        member: str,
        value: Value,
        *,
        at: Any = None,
        id: str | None = None,
        window: str | None = None,
        labels: Mapping[str, str] | None = None,
        scope: Sequence[str] | None = None,
    ) -> Receipt:
        """Report one score, and return its receipt, with the member's rank, once the event is
        durable.

        Raises an error if the event is refused. For a repeated id there is no error: the receipt
        has the status `duplicate`. See `Event` for the forms of value, at and labels. `scope` has
        the label names of the scope whose score and rank are in the receipt, by default the board's
        first. O(log n) per window and scope, one flush.
        """
        return self._store.write(Submit(board, (member, value, at, id, labels), window, scope))

    def submit_many(
        self,
        board: str,
        events: Iterable[Any],
        *,
        window: str | None = None,
        ranks: bool = False,
        all_or_nothing: bool = False,
        key: str | None = None,
        position: SourcePosition | None = None,
        scope: Sequence[str] | None = None,
        arrived: Any = None,
    ) -> Receipts:
        """Report up to 100,000 scores in one commit: tuples (member, value[, at[, id[, labels]]]),
        mappings or named tuples with those names (the field `Index` of pandas' `itertuples()` is
        ignored), or Events.

        A refused event does not affect other events: its receipt has the reason. If every event is
        refused, there is a warning `errors.AllEventsRefused`. With `all_or_nothing`, one refused
        event refuses the whole batch (BatchRefused). A batch `key` gives events without an id the
        ids key#0, key#1, …. `ranks` adds the ranks before and after the commit.

        `position` says how far a source has been counted, and is committed with the batch. It has
        one of three forms:

        - (source, text): `position()` returns the text, so that an import continues there and
          counts nothing twice.
        - (source, text, before): the batch is counted only if the stored position is `before`
          (None if none is stored). Otherwise PositionMoved is raised.
        - (source, text, before, "behind"): repairs a board on an index server whose shards have
          different positions, which is reported as ShardsDiffer. Repeat the batches from the
          earliest of the positions: each shard counts its events of a batch only if its own
          position is `before`.

        `arrived`, used with `before`, is the time at which the source's stream took the events. An
        event that the stream took before the grace of its period ended may still be counted until
        `close_wait` after that end.
        """
        command = SubmitMany(
            board, events, window, ranks, all_or_nothing, key, position, scope, at_ms(arrived)
        )
        receipts = self._store.write(command)
        warn_if_all_refused(receipts)
        return receipts

    def set(
        self,
        board: str,
        member: str,
        value: Value,
        *,
        at: Any = None,
        id: str | None = None,
        window: str | None = None,
        labels: Mapping[str, str] | None = None,
        scope: Sequence[str] | None = None,
    ) -> Receipt:
        """Set a member's score.

        On `sum` columns this counts an event in every window; its value is the difference from the
        member's score in the window `all`. On `last` and `best` columns it counts an event with the
        value itself. On a board with a sum column, NoAllWindow is raised if the board has no window
        `all`, and SetWithTime if `at` is given, except in event time.
        """
        event = member, value, at, id, labels
        return self._administration.write(Submit(board, event, window, scope, absolute=True))

    def set_data(self, board: str, member: str, data: Any, *, before: Any = UNSET) -> None:
        """Set the data of a member, JSON of up to 1 KiB (a name, an avatar); None removes it. With
        `before`, the data is set only if the member's current data equals it (None means that it
        has none).

        Lists return the data with `with_data=True`. The data never affects ranks. Raises
        InvalidData, DataTooLarge, and DataMoved if the member has other data than `before`.
        """
        return self._store.write(SetData(board, member, data, before))

    def remove(self, board: str, member: str) -> bool:
        """Remove a member and its data from every ranking of a board; return whether it was in any.

        The ids of its events stay remembered, so these events are not counted again.
        """
        return self._administration.write(RemoveMember(board, member))

    def hide(self, board: str | None, member: str, reason: str, until: Any = None) -> None:
        """Hide a member of a board: it is still counted, but it is in no ranking until it is shown
        again, and neither totals nor percentages count it.

        With `board=None` the member is hidden on all boards, those created later included. This is
        for moderators; the member need not have been counted yet. With `until`, an aware datetime
        or milliseconds since 1970 UTC, it is shown again at that time. The reason, a text of 1 to
        500 characters, is listed by `hidden`, and is in the audit log. If the member is hidden
        already, the reason and `until` are replaced. Raises InvalidHiding, InvalidAt. O(1); on all
        boards O(boards) on an index server, or if some boards keep changes.
        """
        if board is None:
            return self._administration.write(HideEverywhere(member, reason, at_ms(until)))
        return self._administration.write(HideMember(board, member, reason, at_ms(until)))

    def erase(self, member: str, reason: str) -> Erasure:
        """Erase a person who asks for it: remove a member from every board of the store, with its
        data and the ids of its events, and put a random token in its place in the archive, in
        payouts and in the audit log. The ranks in sealed periods do not change, and the digests of
        these periods still verify.

        The answer lists what may still name the member, such as backups. The member may come back
        with a new event. The call may be repeated; if it fails midway, the next call, or the next
        opening of the store, completes the erasure. The reason, a text of 1 to 500 characters, is
        in the audit log with the token. Raises PayoutsOpen while the member has payouts that are
        not confirmed, PeriodsUnsealed, ArchiveDamaged, StorageFailed, NotOnIndexServer. O(boards +
        scopes + event ids + archived rankings); the archive's files with the member are written
        anew.
        """
        return self._administration.write(EraseMember(member, reason, new_token()))

    def show(self, board: str | None, member: str) -> bool:
        """Show a hidden member again; return whether it was hidden. It then stands as if it had
        never been hidden, with everything that was counted meanwhile.

        With `board=None` this removes the hiding on all boards; a hiding on a single board stays.
        Raises HiddenEverywhere for one board if the member is hidden on all of them. O(1).
        """
        if board is None:
            return self._administration.write(ShowEverywhere(member))
        return self._administration.write(ShowMember(board, member))

    def confirm(self, board: str, payout: str, reference: str) -> Payout:
        """Record that a payout of a board was paid, and return it. `reference` identifies the
        payment: text of 1 to 500 characters.

        Repeating the call changes nothing. Raises UnknownPayout, PayoutNotDue, and PayoutConfirmed
        if the payout was confirmed with another reference.
        """
        return self._administration.write(ConfirmPayout(board, payout, reference))

    def disqualify(
        self,
        board: str,
        member: str,
        reason: str,
        *,
        window: str | None = None,
        period: str | None = None,
        labels: Mapping[str, str] | None = None,
    ) -> Revision:
        """Make a new revision of a sealed period, without a member, and return it. With `labels`
        the member leaves only the ranking of this scope ({}: of all events), otherwise those of all
        scopes.

        The revision before stays in the archive. Payouts that the correction does not change keep
        their ids; those that are pending and change are superseded. Payouts that are due or
        confirmed stay, and the differences become payouts of their own. Raises NotSealed,
        MemberNotRanked, InvalidReference for a reason that is not 1 to 500 characters. O(members of
        the period).
        """
        return self._administration.write(
            DisqualifyMember(board, member, window, period, labels, reason)
        )

    def mend(self, board: str, rankings: Sequence[RankingEntries], *, at: Any = None) -> int:
        """Replace whole entries of rankings, with the times that decide between equal scores;
        return the number of entries that were replaced.

        This is for entries that were read elsewhere, such as in a ledger. An entry is replaced in
        the given window only, whereas an event counts in all windows. With `expected`, an entry is
        replaced only if the current one equals the expected one. Entries of periods that are no
        longer kept are left out. In event time, the board's time becomes `at` if that is later.
        Raises InvalidEntry, for example if the entries of the window change with time.
        """
        return self._administration.write(Mend(board, rankings, at_ms(at)))

    def position(self, board: str, source: str) -> str | None:
        """Return the position last committed for a source imported into a board, or None. Raises
        ShardsDiffer if a shard of the board has lost its newest writes."""
        return self._store.position(board, str(source))

    def positions(self, board: str) -> dict[str, str]:
        """Return the positions last committed for all sources of a board, by source."""
        return self._store.positions(board)

    # Queries

    def top(
        self,
        board: str,
        *,
        window: str | None = None,
        limit: int = 10,
        offset: int = 0,
        reverse: bool = False,
        after: str | None = None,
        period: str | None = None,
        revision: int | None = None,
        with_data: bool = False,
        labels: Mapping[str, str] | None = None,
        by: str | None = None,
    ) -> Page:
        """Return the entries from the top, or with `reverse` from the bottom, after `offset`
        entries.

        `after` is the `next` of the previous page: the list continues there, in the same period. A
        member that does not move across that point meanwhile appears exactly once. At most 10,000
        entries. O(log n + limit).
        """
        return self._ask(
            board,
            Top(
                window=window,
                period=period,
                revision=revision,
                with_data=with_data,
                limit=limit,
                offset=offset,
                reverse=reverse,
                after=after,
                labels=label_pairs(labels),
                by=by,
            ),
        )

    def around(
        self,
        board: str,
        member: str,
        *,
        radius: int = 5,
        window: str | None = None,
        period: str | None = None,
        revision: int | None = None,
        with_data: bool = False,
        labels: Mapping[str, str] | None = None,
        by: str | None = None,
    ) -> Page | None:
        """Return a member and its neighbours: min(2·radius + 1, total) entries. Near an end of the
        ranking, more of the neighbours are on one side. None for a member that is not ranked. O(log
        n + radius).
        """
        return self._ask(
            board,
            Around(
                window=window,
                period=period,
                revision=revision,
                with_data=with_data,
                member=member,
                radius=radius,
                labels=label_pairs(labels),
                by=by,
            ),
        )

    def standing(
        self,
        board: str,
        member: str,
        *,
        window: str | None = None,
        period: str | None = None,
        revision: int | None = None,
        to_rank: int | None = None,
        with_data: bool = False,
        labels: Mapping[str, str] | None = None,
        by: str | None = None,
    ) -> Standing | None:
        """Return a member's standing: rank, score, neighbours and the gaps to them, top percent.

        With `to_rank` the answer also has the gap to the holder of that position, and in `needed`
        the value of one event that takes the member there. None for a member that is not ranked.
        Below the head of a board the rank may be estimated, and `to_rank` is by default the last
        position of the head. O(log n).
        """
        return self._ask(
            board,
            StandingOf(
                window=window,
                period=period,
                revision=revision,
                with_data=with_data,
                member=member,
                to_rank=to_rank,
                labels=label_pairs(labels),
                by=by,
            ),
        )

    def rank(
        self,
        board: str,
        member: str,
        *,
        window: str | None = None,
        period: str | None = None,
        revision: int | None = None,
        labels: Mapping[str, str] | None = None,
        by: str | None = None,
    ) -> Rank | None:
        """Return a member's rank, faster than `standing`; None for a member that is not ranked.
        Below the head of a board it may be an `Estimate`. O(log n)."""
        if period is None and revision is None and by is None and not labels and type(board) is str:
            ensure_member(member)
            rank = self._cached_view(
                board, window, lambda index, key: rank_or_none(index.rank(key, member))
            )
            if rank is not None:
                return rank
        return self._ask(
            board,
            RankOf(
                window=window,
                period=period,
                revision=revision,
                member=member,
                labels=label_pairs(labels),
                by=by,
            ),
        )

    def ranks(
        self,
        board: str,
        members: Iterable[str],
        *,
        window: str | None = None,
        period: str | None = None,
        revision: int | None = None,
        labels: Mapping[str, str] | None = None,
        by: str | None = None,
    ) -> Sequence[Rank | None]:
        """Return the ranks of up to 10,000 members, in the order of the arguments, all at the same
        moment; None for each member that is not ranked. Below the head of a board they may be
        `Estimate`s. O(k log n)."""
        listed = checked_members(members)
        if period is None and revision is None and by is None and not labels and type(board) is str:
            ranks = self._cached_view(
                board, window, lambda index, key: index.ranks_from(key, listed, FIRST)
            )
            if ranks is not None:
                return ranks
        return self._ask(
            board,
            RanksOf(
                window=window,
                period=period,
                revision=revision,
                members=listed,
                labels=label_pairs(labels),
                by=by,
            ),
        )

    def card(
        self,
        board: str,
        member: str,
        *,
        to_rank: int | None = None,
        with_data: bool = False,
        labels: Mapping[str, str] | None = None,
        by: str | None = None,
    ) -> dict[str, Standing | None]:
        """Return a member's standing in the current period of every window, all at the same moment;
        None for a window in which the member is not ranked. O(windows · log n)."""
        return self._ask(
            board,
            Card(
                member=member,
                to_rank=to_rank,
                with_data=with_data,
                labels=label_pairs(labels),
                by=by,
            ),
        )

    def needed(
        self,
        board: str,
        member: str,
        rank: int | None = None,
        *,
        window: str | None = None,
        column: str | None = None,
        labels: Mapping[str, str] | None = None,
    ) -> Needed | None:
        """Return the value of one event with these labels that, counted now and alone, moves a
        member to position `rank` or better; None if the member is there already. On a board with a
        head `rank` is by default its last position.

        For a `sum` column the value is the smallest amount, for a `last` or `best` column the least
        demanding value. `column` names the column whose value varies, by default the first. The
        member need not be ranked.
        """
        return self._ask(
            board,
            NeededFor(
                member=member, rank=rank, window=window, column=column, labels=label_pairs(labels)
            ),
        )

    def settle(
        self,
        board: str,
        *,
        window: str | None = None,
        period: str | None = None,
        labels: Mapping[str, str] | None = None,
        limit: int = 1_000,
        offset: int = 0,
    ) -> Settlement:
        """Return who wins which prizes of a period, by its present standings: a preview while the
        period runs, and the outcome once it is final. Nothing is written.

        The awards are those of `limit` members from position `offset` on; `next` is the offset of
        the next page. `labels` are those of a scope in which the window awards prizes. Raises
        NoPrizes if it awards none. O(log n + limit).
        """
        return self._ask(
            board,
            Settle(
                window=window,
                period=period,
                labels=label_pairs(labels),
                limit=limit,
                offset=offset,
            ),
        )

    def payouts(
        self,
        board: str,
        *,
        window: str | None = None,
        period: str | None = None,
        member: str | None = None,
        state: PayoutState | None = None,
        due_only: bool = False,
        after: str | None = None,
        limit: int = 100,
    ) -> PayoutPage:
        """Return the payouts of a board in the order in which they are due: the prizes owed to
        members for sealed periods. Those of a deleted board can still be read.

        `state` is "pending", "due", "confirmed" or "superseded". `after` is the `next` of the
        previous page. With `due_only` the list has only payouts that are due or confirmed. This
        list grows only at its end, so a program can continue from the `cursor` of its last page. At
        most 2,000 payouts. Raises InvalidState, InvalidCursor, InvalidLimit. O(log n + payouts of
        the board that the arguments leave out + limit).
        """
        return self._ask(
            board,
            PayoutsOf(
                window=window,
                period=period,
                member=member,
                state=state,
                due_only=due_only,
                after=after,
                limit=limit,
            ),
        )

    def due_payouts(
        self,
        *,
        boards: Sequence[str] | None = None,
        after: str | None = None,
        limit: int = 1_000,
    ) -> PayoutPage:
        """Return the due payouts of all boards, or of those that match the patterns `boards`, in
        the order in which they were due. Payouts of deleted boards, and payouts that were confirmed
        since, are listed, too.

        The list grows only at its end, so a program that pays continues from the `cursor` of its
        last page. A page may have fewer payouts than `limit`, or none, while `next` is not None. At
        most 2,000 payouts. Raises InvalidCursor, InvalidLimit, and PayoutsDiverged if the store
        does not have the payout that the cursor names, since it has lost its newest data. O(log n +
        payouts of other boards + limit).
        """
        return self._store.due_payouts.page(after, limit, BoardSelection(boards))

    def waiting_payouts(
        self, *, boards: Sequence[str] | None = None, after: str | None = None
    ) -> list[WaitingPayouts]:
        """Return how many due payouts of each board come after a cursor of `due_payouts`, by the
        names of the boards. Raises InvalidCursor, PayoutsDiverged. O(payouts after the cursor)."""
        return self._store.due_payouts.waiting(after, BoardSelection(boards))

    def payout_positions(self) -> dict[str, str]:
        """Return how far the readers of `due_payouts` have come: their cursors, by name."""
        return self._store.due_payouts.positions()

    def move_payout_position(self, reader: str, before: str | None, position: str | None) -> None:
        """Store a cursor of `due_payouts` under the name of a reader, in place of the stored cursor
        `before`; None stands for no cursor. Raises PositionMoved if the stored cursor is not
        `before`, for example because a second process reads under the same name. Also raises
        InvalidReader, InvalidCursor."""
        return self._store.due_payouts.move(reader, before, position)

    def standings(
        self,
        board: str,
        members: Iterable[str],
        *,
        window: str | None = None,
        period: str | None = None,
        revision: int | None = None,
        with_data: bool = False,
        labels: Mapping[str, str] | None = None,
        by: str | None = None,
    ) -> Page:
        """Return the entries of the given members (friends, for example) that are ranked, in the
        order of the ranking. `place` is the rank among these entries, in the board's rank style. At
        most 10,000 members. O(k log n)."""
        return self._ask(
            board,
            StandingsOf(
                window=window,
                period=period,
                revision=revision,
                with_data=with_data,
                members=checked_members(members),
                labels=label_pairs(labels),
                by=by,
            ),
        )

    def entries(
        self,
        board: str,
        members: Iterable[str],
        *,
        window: str | None = None,
        period: str | None = None,
        revision: int | None = None,
        labels: Mapping[str, str] | None = None,
        with_data: bool = False,
    ) -> list[StoredEntry]:
        """Return the stored entries of members, in the order of the arguments, with the times that
        decide between equal scores. The entry of a member that is not ranked has no score, but has
        the member's data if it is requested. O(members * log n)."""
        return self._ask(
            board,
            EntriesOf(
                window=window,
                period=period,
                revision=revision,
                labels=label_pairs(labels),
                members=checked_members(members),
                with_data=with_data,
            ),
        )

    def range(
        self,
        board: str,
        *,
        low: Bound | None = None,
        high: Bound | None = None,
        limit: int = 100,
        offset: int = 0,
        after: str | None = None,
        window: str | None = None,
        period: str | None = None,
        revision: int | None = None,
        with_data: bool = False,
        labels: Mapping[str, str] | None = None,
        by: str | None = None,
    ) -> Page:
        """Return the entries with scores from low to high, ends included, in the order of the
        ranking.

        On a board with several columns a bound is a tuple of values, for all columns or only the
        first ones. The two bounds may be in either order. `after` is the `next` of the previous
        page. O(log n + limit).
        """
        return self._ask(
            board,
            Range(
                window=window,
                period=period,
                revision=revision,
                with_data=with_data,
                low=low,
                high=high,
                limit=limit,
                offset=offset,
                after=after,
                labels=label_pairs(labels),
                by=by,
            ),
        )

    def at_rank(
        self,
        board: str,
        rank: int,
        *,
        window: str | None = None,
        period: str | None = None,
        revision: int | None = None,
        with_data: bool = False,
        labels: Mapping[str, str] | None = None,
        by: str | None = None,
    ) -> Standing | None:
        """Return the standing at a position, counted from 1; None beyond the last. O(log n)."""
        return self._ask(
            board,
            AtRank(
                window=window,
                period=period,
                revision=revision,
                with_data=with_data,
                rank=rank,
                labels=label_pairs(labels),
                by=by,
            ),
        )

    def score_at_percentile(
        self,
        board: str,
        percentile: Any,
        *,
        window: str | None = None,
        period: str | None = None,
        revision: int | None = None,
        labels: Mapping[str, str] | None = None,
        by: str | None = None,
    ) -> Score | None:
        """Return the score that `percentile` percent of the members do not exceed (nearest rank):
        100 is the best, 50 the median. None on an empty ranking. O(log n)."""
        return self._ask(
            board,
            ScoreAtPercentile(
                window=window,
                period=period,
                revision=revision,
                percentile=percentile,
                labels=label_pairs(labels),
                by=by,
            ),
        )

    def count(
        self,
        board: str,
        *,
        low: Bound | None = None,
        high: Bound | None = None,
        window: str | None = None,
        period: str | None = None,
        revision: int | None = None,
        labels: Mapping[str, str] | None = None,
        by: str | None = None,
    ) -> int:
        """Return the number of members with scores from low to high, ends included. O(log n)."""
        return self._ask(
            board,
            Count(
                window=window,
                period=period,
                revision=revision,
                low=low,
                high=high,
                labels=label_pairs(labels),
                by=by,
            ),
        )

    def periods(
        self,
        board: str,
        window: str | None = None,
        *,
        labels: Mapping[str, str] | None = None,
        by: str | None = None,
    ) -> list[PeriodInfo]:
        """Return the periods of a window that can be read, newest first. O(keep)."""
        return self._ask(
            board,
            Periods(window=window, labels=label_pairs(labels), by=by),
        )

    def scopes(
        self,
        board: str,
        *labels: str,
        after: Mapping[str, str] | None = None,
        limit: int = 1_000,
    ) -> list[dict[str, str]]:
        """Return the scopes of these label names that have members, in the order of their values:
        `lb.scopes("gifts", "room")` are the rooms. `after` is the last scope of the previous page;
        at most 10,000. O(log n + limit)."""
        return self._ask(board, Scopes(labels=labels, after=scope_after(after), limit=limit))

    def hidden(
        self, board: str | None = None, *, after: str | None = None, limit: int = 1_000
    ) -> list[HiddenMember]:
        """Return the hidden members of a board in the order of their ids, each with the reason and
        the times at which its hiding began and will end. Without a board, return the members that
        are hidden on all boards. `after` is the last member of the previous page; at most
        10,000."""
        query = HiddenOn(after=after, limit=limit)
        if board is None:
            return self._store.hidden_everywhere(query.after, query.limit)
        return self._ask(board, query)

    def export(
        self,
        board: str,
        *,
        window: str | None = None,
        period: str | None = None,
        revision: int | None = None,
        with_data: bool = False,
        labels: Mapping[str, str] | None = None,
        by: str | None = None,
    ) -> Iterator[Entry]:
        """Return all entries in the order of the ranking, read in pages. Commits continue between
        pages; a member that does not move across the current position appears exactly once. Raises
        BeyondHead if the board has a head and the ranking has members below it."""

        def page(after: str | None) -> Page:
            return self.top(
                board,
                window=window,
                period=period,
                revision=revision,
                limit=EXPORT_CHUNK,
                after=after,
                with_data=with_data,
                labels=labels,
                by=by,
            )

        return _pages(page)

    def changes(
        self,
        board: str,
        *,
        after: str | None = None,
        limit: int = 1_000,
        initial: bool = False,
    ) -> ChangePage:
        """Return the changes of a board that keeps them, in order: up to `limit` changes after a
        cursor, which is the `cursor` of the previous page.

        Without a cursor the page begins with the oldest change that is kept. With `after="now"` it
        has only future changes. With `initial` it begins with every current entry, in changes of
        the kind `initial`, then has a change `initial_end`, and continues with the changes since.
        Each change appears once, and has the same id whenever it is read. The changes of one member
        are in order. Raises ChangesNotKept for a board without `changes`, ChangesExpired if the
        changes after the cursor are no longer kept, and CursorDiverged if the store does not have
        the change that the cursor names, for example since it has lost its newest data. After the
        last two, begin with `initial` again. Also raises InvalidCursor and InvalidLimit (1 to
        10,000). O(limit).
        """
        return self._store.changes(board, after, checked_limit(limit), initial=initial)

    def watch_changes(
        self,
        board: str,
        *,
        after: str | None = None,
        limit: int = 1_000,
        initial: bool = False,
        poll_seconds: float = POLL_SECONDS,
    ) -> Iterator[ChangePage]:
        """Yield pages of changes, each with at least one change, until the board is deleted. While
        there is no new change, the board is asked again every `poll_seconds`. A caller that stores
        the `cursor` of each page it has processed can continue there after a restart."""
        while True:
            page = self.changes(board, after=after, limit=limit, initial=initial)
            after, initial = page.cursor, False
            if page.changes:
                yield page
            if page.is_end:
                return
            if not page.changes and not page.more:
                threading.Event().wait(poll_seconds)

    def changed_boards(self, after: str | None = None) -> ChangedBoards:
        """Return the names of the boards with changes after a cursor, which is the `cursor` of the
        previous call. A reader of many boards need not poll each of them: it calls this method, and
        then reads the changes of the boards in the answer.

        In the answer `boards` is None if there was no cursor, or if the store cannot tell which
        boards have changes, such as after a restart: then read all of them. The answer may leave a
        board out if a process or a server is lost, so read every board at long intervals, too.
        Raises InvalidCursor. O(boards returned).
        """
        return self._store.changed_boards(after)

    def deleted_boards(self, source: str | None = None) -> list[DeletedBoard]:
        """Return the deleted boards whose changes are still kept, in the order of their deletion.

        From its deletion on, the changes of a board are kept for the duration in its setting
        `changes`, such as 7d. The method `changes` reads them with a cursor of that board: one that
        a reader had before the deletion, or the `cursor` in this answer. The last change has the
        kind `delete`. With a `source` the answer also has the position of that source, such as
        `sink:NAME`. O(deleted boards).
        """
        return self._store.deleted_boards(source)

    @overload
    def stats(self) -> Stats: ...
    @overload
    def stats(self, board: str) -> BoardStats: ...
    def stats(self, board: str | None = None) -> Stats | BoardStats:
        """Return statistics of a board (members, rankings, memory, ids remembered), or of the whole
        store.

        O(rankings).
        """
        return self._store.stats() if board is None else self._store.board_stats(board)

    # Maintenance

    def check(self) -> CheckReport:
        """Check every invariant of every structure, and that the index equals a fold of the log
        from its beginning. Raises CheckFailed with the first difference. Writes wait, reads
        continue."""
        return self._store.check()

    def rebuild(self) -> None:
        """Rebuild the index from the log, and replace the current one. Writes wait; reads continue
        until the replacement."""
        return self._administration.rebuild()

    def snapshot(self) -> int:
        """Take a snapshot of everything, so that opening need not read the log before it; return
        its offset. Reads and writes continue. Snapshots are also taken automatically as the log
        grows. The newest two are kept. The log before the older one is removed, unless the folder
        keeps its whole log. Raises StorageFailed if the disk refuses, NothingToBackUp for
        `memory:`."""
        return self._store.snapshot()

    def seal(self) -> Sealed:
        """Close all periods that are due, and write the closed ones to the archive. Return how many
        were closed and sealed. Reads and writes continue. This is also done automatically: periods
        are closed with the next write to their board or, by a service, as time passes, and are then
        sealed in the background. Raises StorageFailed if the disk refuses, and LedgerUnavailable on
        an index server if the ledger of a board does not answer."""
        return self._store.seal()

    def archived(
        self, board: str, window: str | None = None, *, limit: int = 1_000, offset: int = 0
    ) -> list[SealedInfo]:
        """Return the periods in the archive, of all windows of a board or of one, newest first; at
        most 10,000. Beyond an offset of 10,000 one window has to be named. Queries with `period=`
        read their standings. O(limit), and a fast scan of the archived periods."""
        return self._ask(board, Archived(window=window, limit=limit, offset=offset))

    def archive_pieces(
        self,
        board: str,
        window: str | None = None,
        period: str | None = None,
        *,
        revision: int = 0,
        after: str | None = None,
        limit: int = 1_000,
    ) -> SealedPage:
        """Return a revision of a sealed period as it is archived, in pages of up to 10,000 entries:
        the words of the entries of all rankings, and the secrets of their salts. `after` is the
        `next` of the previous page. Raises NotSealed, UnknownRevision, ArchiveDamaged; a service
        requires a key that administers. O(limit)."""
        return self._ask(
            board,
            ArchivePieces(
                window=window, period=period, revision=revision, after=after, limit=limit
            ),
        )

    def verify(
        self, board: str, *, window: str | None = None, period: str | None = None
    ) -> VerifiedPeriod:
        """Compute the digest of a sealed period once more: from the archive and, if the log reaches
        back to the period, from a second fold of the log. Reads and writes continue. Raises
        NotSealed, and ArchiveDamaged if the standings cannot be read. O(entries of the period), and
        O(log)."""
        return self._store.verify_period(board, window, period)

    def clock_status(self) -> ClockStatus:
        """Return the time that the store uses, and how it differs from the system's clock."""
        return self._store.clock_status()

    def accept_clock(self) -> ClockStatus:
        """Follow the system's clock from now on, however far it has leapt; return the status
        afterwards. Time does not go back: if the clock is behind the newest record, time stands
        still until the clock has caught up. Raises InvalidClock if the store uses another clock."""
        return self._administration.accept_clock()

    def audit(
        self, board: str | None = None, *, before: str | None = None, limit: int = 100
    ) -> AuditPage:
        """Return the newest entries of the audit log, of one board or of everything: who
        administered what, when and why.

        `before` is the `next` of the previous page, and continues with older entries. A service
        requires a key with the scope `admin`. Raises InvalidCursor, InvalidLimit (1 to 1,000),
        StorageFailed.
        """
        return self._store.audit(board, before, limit)

    def hot(self) -> HotReport:
        """Return the boards and members that a service is asked for most: those with at least 50
        queries, and 0.5 % of all, within ten seconds. A key limited to some boards gets only these
        boards and their members.

        Only a service counts queries; each of its processes counts those that it has answered. For
        boards that this program has opened itself the report is empty, and covers 0 seconds.
        """
        return self._store.hot()

    def close(self) -> None:
        """Commit the queued writes and close; closing again does nothing."""
        self._store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def _pages(page: Callable[[str | None], Page]) -> Iterator[Entry]:
    """Return an iterator over the entries of all pages.

    The first page is read at once, so its errors are raised by this call. Each later page is read
    when the iteration reaches it.
    """

    def entries(read: Page) -> Iterator[Entry]:
        yield from read.entries
        while read.next is not None:
            read = listed_whole(page(read.next))
            yield from read.entries

    return entries(listed_whole(page(None)))


def listed_whole(page: Page) -> Page:
    """Return the page. Raise BeyondHead if the ranking has positions that cannot be listed."""
    if page.certain is None:
        return page
    raise BeyondHead(
        f"expected a ranking that can be listed to its end, got one of {page.total:,} members of "
        f"which the first {page.certain:,} can be listed"
    )
