"""Payouts: the prizes owed to members for sealed periods. Pure.

The id of a payout consists of the parts that identify it: board uid, window, period, scope, member,
prize and revision. So a program that pays can recognize a payout that it has paid, and the payouts
of a board that is created anew have other ids.
"""

from collections.abc import Iterator, Sequence
from typing import Any, Literal, Protocol, SupportsIndex, get_args, overload
from urllib.parse import quote

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from laurels.model.answer import Answer
from laurels.model.labels import labels_of
from laurels.model.score import Number, to_value

PayoutState = Literal["pending", "due", "confirmed", "superseded"]
STATES: tuple[PayoutState, ...] = get_args(PayoutState)


def payout_id(
    uid: str, window: str, period: str, scope: str, member: str, prize: str, revision: int
) -> str:
    """Return the id of a payout: its parts, percent-encoded, between slashes."""
    parts = (uid, window, period, scope, member, prize, str(revision))
    return "/".join([quote(part, safe="") for part in parts])


class PayoutRow(Struct, frozen=True, array_like=True):
    """A payout as it is stored.

    `units` is the amount in units of 10^-scale, negative if a payout that is due already was too
    high; None for a prize without an amount. A payout that is `withdrawn` takes back a prize
    without an amount. `corrects` is the id of the payout that this one corrects; `units` is then
    the difference. `superseded` is the revision that replaced the payout before it was due.
    """

    id: str
    uid: str
    board: str
    window: str
    instance: int
    period: str
    revision: int
    scope: str
    member: str
    prize: str
    position: int
    units: int | None
    scale: int
    data: bytes
    withdrawn: bool
    corrects: str | None
    made_ms: int
    due_ms: int
    superseded: int | None = None
    reference: str | None = None
    confirmed_ms: int | None = None

    def state(self, now_ms: int) -> PayoutState:
        """Return the state of the payout at `now_ms`."""
        if self.superseded is not None:
            return "superseded"
        if self.reference is not None:
            return "confirmed"
        return "due" if self.due_ms <= now_ms else "pending"


class Payout(Answer, frozen=True, omit_defaults=True):
    """A prize owed to a member for a sealed period.

    It is `pending` until `due_ms`, then `due`, and `confirmed` with a `reference` once it has been
    paid. A correction of the period supersedes payouts that are pending; for those that are due or
    confirmed it makes payouts of the difference, whose `amount` may be negative. `corrects` is then
    the id of the payout that was due. A payout that is `withdrawn` takes back a prize without an
    amount. `position` is counted from 1, and `labels` are those of the scope. `revision` is the
    revision of the period that made the payout; `superseded_by` is the revision that replaced the
    payout.
    """

    id: str
    board: str
    window: str
    period: str
    labels: dict[str, str]
    member: str
    prize: str
    position: int
    state: PayoutState
    revision: int
    made_ms: int
    due_ms: int
    amount: Number | None = None
    data: Any = None
    withdrawn: bool = False
    corrects: str | None = None
    superseded_by: int | None = None
    reference: str | None = None
    confirmed_ms: int | None = None


class PayoutPage(Answer, frozen=True):
    """Payouts in the order in which they are due. The page is a sequence of them. `next` is the
    argument `after` for the next page, None at the end. `cursor` is the place after the last payout
    of the page, from which payouts that become due later can be read; None if there are no payouts
    yet."""

    payouts: list[Payout]
    next: str | None = None
    cursor: str | None = None

    def __len__(self) -> int:
        return len(self.payouts)

    def __iter__(self) -> Iterator[Payout]:
        return iter(self.payouts)

    @overload
    def __getitem__(self, at: SupportsIndex) -> Payout: ...
    @overload
    def __getitem__(self, at: slice) -> list[Payout]: ...
    @overload
    def __getitem__(self, at: str) -> Any: ...
    def __getitem__(self, at: SupportsIndex | slice | str) -> Any:
        return super().__getitem__(at) if isinstance(at, str) else self.payouts[at]


class Revision(Answer, frozen=True):
    """A new revision of a sealed period after a correction: the number of its entries in all
    scopes, and their digest."""

    board: str
    window: str
    period: str | None
    revision: int
    entries: int
    digest: str


class DuePlace(Struct, frozen=True, array_like=True, order=True):
    """A place in the list of due payouts: after the payout with this due time and number."""

    due_ms: int
    serial: int

    @property
    def parts(self) -> tuple[int, int]:
        """The due time and the number."""
        return self.due_ms, self.serial


BEFORE_ALL = DuePlace(-(2**63), 0)


class PayoutShare(Struct, frozen=True):
    """Due payouts that are not in the list yet: those after the place `after`, up to and including
    `until`. `counts` has their number for each board, by the board's name and uid."""

    after: DuePlace
    until: DuePlace
    counts: dict[tuple[str, str], int]


class PayoutFilter(Struct, frozen=True):
    """Which payouts of a board are wanted. A field that is None allows any value. With `due_only`
    only payouts that are or were due are wanted."""

    board: str
    window: str | None = None
    period: str | None = None
    member: str | None = None
    state: PayoutState | None = None
    due_only: bool = False


class PayoutRequest(Struct, frozen=True):
    """The payouts that a query reads: up to `limit` of them, after the place given by a due time
    and a number."""

    wanted: PayoutFilter
    after: tuple[int, int]
    limit: int


class PayoutReads(Protocol):
    """The payouts of a store, as queries read them. Each method is atomic, and may raise
    StorageFailed."""

    def page(
        self, wanted: PayoutFilter, now_ms: int, after: tuple[int, int], limit: int
    ) -> list[tuple[int, PayoutRow]]:
        """Return up to `limit` payouts, each with its number, in the order of their due times and
        numbers. The first is the next one after `after`, a due time and a number."""

    def knows(self, board: str, window: str | None = None) -> bool:
        """Return whether a board of that name has or had payouts, in a window if one is named."""

    def open_periods(self, uid: str, window: str) -> list[int]:
        """Return the instances of a window's periods with payouts that are neither confirmed nor
        superseded."""


class PayoutBook(PayoutReads, Protocol):
    """The payouts of a store, which the records of its log change. Each method is atomic, and may
    raise StorageFailed."""

    def find(self, id: str) -> PayoutRow | None:
        """Return a payout; None if there is none of that id."""

    def publish(
        self,
        number: int,
        uid: str,
        window: str,
        instance: int,
        revision: int,
        now_ms: int,
        tag: int,
    ) -> None:
        """Make the payouts of a revision visible. The time until they are due begins at `now_ms`.
        `number` is the number of the board, and `tag` the random tag of the record that does
        this."""

    def adopt(self, number: int, tag: int) -> None:
        """Make the payouts visible that came with the copy of the board with this number. Those
        that are due and not confirmed enter the list of due payouts at its end. A second call
        changes nothing."""

    def discard(self, number: int) -> None:
        """Remove the payouts that came with a copy that was given up."""

    def forget(self, number: int, uid: str) -> None:
        """Remove the payouts of a board that continues in another store. Those that came with later
        copies of the board, which have greater numbers, stay."""

    def rename(self, uid: str, board: str) -> None:
        """Store the name under which a board was restored. A second call changes nothing."""

    def emit(self, until: DuePlace) -> None:
        """Enter the payouts up to a place in the list of due payouts. A second call changes
        nothing."""

    def emitted(self, after: DuePlace, until: DuePlace) -> dict[str, list[PayoutRow]]:
        """Return the payouts that were emitted between two places, by the uids of their boards."""

    def confirm(self, id: str, reference: str, now_ms: int) -> None:
        """Record that a payout was paid. A second call changes nothing."""

    def open_on(self, uid: str) -> int:
        """Return how many payouts of a board are neither confirmed nor superseded."""

    def open_of(self, member: str) -> int:
        """Return how many payouts of a member are neither confirmed nor superseded, on all
        boards."""


def payout_of(row: PayoutRow, now_ms: int) -> Payout:
    """Return a payout as users see it at `now_ms`."""
    return Payout(
        id=row.id,
        board=row.board,
        window=row.window,
        period=row.period,
        labels=labels_of(row.scope),
        member=row.member,
        prize=row.prize,
        position=row.position,
        state=row.state(now_ms),
        revision=row.revision,
        made_ms=row.made_ms,
        due_ms=row.due_ms,
        amount=None if row.units is None else to_value(row.units, row.scale),
        data=msgspec.json.decode(row.data),
        withdrawn=row.withdrawn,
        corrects=row.corrects,
        superseded_by=row.superseded,
        reference=row.reference,
        confirmed_ms=row.confirmed_ms,
    )


class Owed(Struct, frozen=True):
    """The amount that a member wins with a prize in one scope of a period, by its present
    standings."""

    scope: str
    member: str
    prize: str
    position: int
    units: int | None
    scale: int
    data: bytes

    @property
    def key(self) -> tuple[str, str, str]:
        """The scope, the member and the prize."""
        return self.scope, self.member, self.prize


class Added(Struct, frozen=True):
    """A payout to be made: the amount that is owed, and the id of the payout that it corrects. If
    it is `withdrawn`, it takes back a prize without an amount."""

    owed: Owed
    corrects: str | None = None
    withdrawn: bool = False


class Correction(Struct, frozen=True):
    """The effect of a new revision of a period on its payouts: the ids of payouts that are
    superseded, and the payouts to be added."""

    superseded: list[str]
    added: list[Added]


def correction(present: Sequence[PayoutRow], owed: Sequence[Owed], now_ms: int) -> Correction:
    """Return the changes that make the payouts of a period agree with its new standings.

    `present` are its payouts that are not superseded, `owed` the amounts that its members win now.
    A pending payout that is still owed unchanged stays. Other pending ones are superseded. Payouts
    that are due or confirmed stay, and a payout of the difference is added.
    """
    wanted = {each.key: each for each in owed}
    by_key: dict[tuple[str, str, str], list[PayoutRow]] = {key: [] for key in wanted}
    for row in present:
        by_key.setdefault((row.scope, row.member, row.prize), []).append(row)
    superseded: list[str] = []
    added: list[Added] = []
    for key, rows in by_key.items():
        final = [row for row in rows if row.state(now_ms) != "pending"]
        pending = [row for row in rows if row.state(now_ms) == "pending"]
        missing = _missing(final, wanted.get(key))
        if missing is not None and [_is(row, missing) for row in pending] == [True]:
            continue
        superseded += [row.id for row in pending]
        if missing is not None:
            added.append(missing)
    return Correction(superseded, added)


def _missing(final: Sequence[PayoutRow], want: Owed | None) -> Added | None:
    """Return the payout that has to be added so that all payouts together are what is owed now
    (`want`); None if none is missing. `final` are the payouts that cannot be changed any more. The
    added payout may be negative."""
    if not final:
        return None if want is None else Added(want)
    first = final[0]
    owed = want or Owed(
        first.scope, first.member, first.prize, first.position, 0, first.scale, first.data
    )
    if first.units is None:
        has = sum([-1 if row.withdrawn else 1 for row in final]) > 0
        if has == (want is not None):
            return None
        return Added(replace(owed, units=None), first.id, withdrawn=has)
    missing = (owed.units or 0) - sum([row.units or 0 for row in final])
    return Added(replace(owed, units=missing), first.id) if missing else None


def _is(row: PayoutRow, added: Added) -> bool:
    """Return whether a pending payout has the same content as one to be added."""
    return (row.units, row.data, row.corrects, row.withdrawn) == (
        added.owed.units,
        added.owed.data,
        added.corrects,
        added.withdrawn,
    )
