"""Entries of a ranking in their stored form, to be read and replaced. Pure.

An entry is replaced as a whole, with the times that decide between equal scores. An event could not
do this, since it would count in all current windows. So a ranking can be given entries that were
read elsewhere, such as in a ledger, or entries that it had before an error.
"""

from array import array
from collections.abc import Sequence
from typing import Any

from msgspec import Struct

from laurels.core.changes.pages import times_of
from laurels.core.record import EntryRows
from laurels.engine.batch.packing import pack
from laurels.errors.ledger import InvalidEntry
from laurels.model.answer import Answer
from laurels.model.event import member_bytes
from laurels.model.rules import Rules
from laurels.model.score import Score, score_of, stamp, to_units, units_of
from laurels.model.validation import integer, safe_repr
from laurels.timeline.instants import MAX_MS, MIN_MS


class StoredEntry(Answer, frozen=True, omit_defaults=True):
    """The entry of a member in a ranking; the score is None if the member has no entry.
    `reached_ms` is the time at which the score was reached, if this time decides between equal
    scores. `last_ms` is the time that decides the value of `last` columns. `data` is the member's
    data, if the data was requested; the data is not part of the entry."""

    member: str
    score: Score | None = None
    reached_ms: int | None = None
    last_ms: int | None = None
    data: Any = None


class RankingEntries(Struct, frozen=True):
    """Entries to replace the current entries of their members in a ranking. With `expected`, a
    member is changed only if its current entry is the expected one."""

    window: str
    period: str | None
    labels: dict[str, str] | None
    entries: Sequence[StoredEntry]
    expected: Sequence[StoredEntry] | None = None


def stored_entry(member: str, words: Sequence[int], rules: Rules) -> StoredEntry:
    """Return the entry of a member from all its words."""
    return StoredEntry(member, score_of(units_of(words, rules), rules), *times_of(words, rules))


class MendedColumns(Struct, frozen=True):
    """The members of entries, and their words in columns."""

    members: bytes
    lengths: bytes
    rows: EntryRows


def entry_columns(entries: Sequence[StoredEntry], rules: Rules) -> MendedColumns:
    """Return entries in the form of a log record. Raises InvalidEntry and the errors of values."""
    members = [member_bytes(entry.member) for entry in entries]
    if len(set(members)) != len(members):
        raise InvalidEntry("expected each member once, got one twice")
    lengths = bytes(map(len, members))
    return MendedColumns(b"".join(members), lengths, entry_rows(entries, rules))


def entry_rows(entries: Sequence[StoredEntry], rules: Rules) -> EntryRows:
    """Return the words of entries. Raises InvalidEntry and the errors of values."""
    nothing = (0,) * rules.entry_words
    words = [nothing if e.score is None else _words_of(e, rules) for e in entries]
    return EntryRows(
        bytes([entry.score is not None for entry in entries]),
        tuple([pack(array("q", column)) for column in zip(*words, strict=True)]),
    )


def _words_of(entry: StoredEntry, rules: Rules) -> tuple[int, ...]:
    parts = entry.score if isinstance(entry.score, tuple | list) else (entry.score,)
    if len(parts) != len(rules.columns):
        raise InvalidEntry(f"expected {len(rules.columns)} values, got {len(parts)}")
    words = [
        column.sign * to_units(value, column)
        for value, column in zip(parts, rules.columns, strict=True)
    ]
    for value, column in zip(words, rules.columns, strict=True):
        if not column.low <= column.sign * value <= column.high:
            raise InvalidEntry(f"the score of {safe_repr(entry.member)} is out of range")
    if rules.tie:
        words.append(rules.tie * stamp(_time(entry.reached_ms, "reached_ms"), rules.resolution_ms))
    if rules.is_stamped:
        words.append(_time(entry.last_ms, "last_ms"))
    return tuple(words)


def _time(value: object, name: str) -> int:
    time_ms = integer(value)
    if time_ms is None or not MIN_MS <= time_ms <= MAX_MS:
        raise InvalidEntry(f"expected milliseconds since 1970 for {name}, got {safe_repr(value)}")
    return time_ms
