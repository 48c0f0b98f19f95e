"""Revisions of sealed periods as rows of the table `final_periods`."""

from typing import Any

import msgspec
from msgspec import Struct

from laurels.core.closing import SealedPeriod
from laurels.core.sealed_contents import SealedRevision
from laurels.model.board import Board
from laurels.model.rules import Rules

from .dialects import Row
from .texts import escape, unescape

SELECTED = (
    "number, uid, window_name, instance, revision, board, sealed_at, entries, digest, "
    "is_current, definition, seal"
)
"""The columns from which `period_of_row` makes a period."""


class FinalPeriod(Struct, frozen=True):
    """A revision of a sealed period in a ledger, with the definition of its board. `number` is how
    the rankings refer to it. `is_current` is whether it is the newest revision."""

    number: int
    revision: SealedRevision
    board: str
    definition: bytes
    is_current: bool

    def rules(self) -> Rules:
        """Return the rules of the board."""
        return Board.from_json(self.definition).rules()


class _Seal(Struct, omit_defaults=True):
    hide_zero: bool = False
    hidden: list[str] = []
    prizes: str = ""


_seals = msgspec.json.Decoder(_Seal)


def row_of_period(period: FinalPeriod, rules: Rules, closed_ms: int | None) -> Row:
    """Return the row of a period, marked as not complete, since its rankings are written later."""
    revision, seal = period.revision, period.revision.seal
    window = rules.windows[revision.window]
    dates = window.period_of(revision.instance)
    return (
        *(revision.uid, revision.window, revision.instance, revision.revision, period.number),
        *(period.board, dates.label, window.counts_from(dates), dates.end_ms),
        *(closed_ms, seal.sealed_ms, seal.entries, seal.digest.hex(), 0, 0),
        *(escape(period.definition.decode()), seal_text(seal)),
    )


def seal_text(seal: SealedPeriod) -> str:
    """Return the value of the column `seal` for a period: the parts of its seal, as JSON, that have
    no columns of their own."""
    hidden = [member.decode() for member in seal.hidden]
    return escape(msgspec.json.encode(_Seal(seal.hide_zero, hidden, seal.prizes)).decode())


def period_of_row(row: Row) -> FinalPeriod:
    """Return the period in a row with the columns `SELECTED`."""
    number, uid, window, instance, revision, board, sealed_ms, entries, digest, *rest = row
    is_current, definition, closing = rest
    closed: Any = _seals.decode(unescape(closing))
    seal = SealedPeriod(
        int(sealed_ms),
        int(entries),
        bytes.fromhex(digest),
        int(revision),
        closed.hide_zero,
        tuple([member.encode() for member in closed.hidden]),
        closed.prizes,
    )
    return FinalPeriod(
        int(number),
        SealedRevision(uid, window, int(instance), int(revision), seal),
        board,
        unescape(definition).encode(),
        bool(is_current),
    )


def without_hidden(seal: str, member: str) -> str:
    """Return the value `seal` of the column of that name, with a member removed from its list of
    hidden members."""
    if '"hidden"' not in seal:
        return seal
    closing = _seals.decode(unescape(seal))
    if member not in closing.hidden:
        return seal
    hidden = [each for each in closing.hidden if each != member]
    return escape(msgspec.json.encode(_Seal(closing.hide_zero, hidden, closing.prizes)).decode())
