"""Log records: everything that may change an answer, and how it is encoded to bytes and decoded.

One commit is one entry of the log: a list of records that become durable, and visible, together. A
record has the `now` at which it was accepted, the number of its board and the version of the
definition by which it was validated. Numbers of boards are never reused: a board that is created
again with an old name has a new number. The bytes are msgpack arrays.
"""

import msgspec
from msgspec import Struct

from laurels.errors import FormatTooNew, LogDamaged
from laurels.model.labels import Values

FORMAT = 4
"""The format of an entry with records that hide members, show or erase them, that close or seal a
period, that restore a deleted board, or that move the position of a sink in its changes. Versions
that know the formats up to 3 do not know these records."""
_MENDED = 3
"""The format of an entry with records that replace entries of rankings (`MendRanking`), that belong
to a board that is copied from another store, or that have events whose lateness is judged as of an
earlier time. Versions that know the formats 1 and 2 do not know these records."""
_OWN_TIMES = 2
"""The format of an entry whose boards have times of their own (event time), and whose batches may
have a time of acceptance for each event. Other entries have format 1, in which the time never
decreases from record to record."""
_ONE_TIME = 1


class _Header(Struct, frozen=True, array_like=True):
    """The fields with which every record begins. The fields of a record are encoded in their
    order."""

    board: int
    version: int
    now_ms: int


class _OfPeriod(_Header, frozen=True, array_like=True):
    """The header of a record about one period of a window."""

    window: str
    instance: int


class Events(_Header, frozen=True, array_like=True, tag="events"):
    """A batch of events, in columns; `ages` are the differences between now and `at`; None if each
    `at` is now.

    `weights` has, by the half-lives of the board's decay windows, the mantissas of the events'
    weights. There is a mantissa for each event, or a single one if each `at` is now. `labels` are
    the names of the labels, the distinct tuples of their values, and for each event the index of
    its tuple. `waits` has, for each event, how long before now it was accepted. It is None if all
    events were accepted now, or if the times have no effect.

    `tag` is a random number that identifies the changes of a record; it is 0 on a board that keeps
    no changes. Other kinds of records have a tag, too.
    """

    size: int
    members: bytes
    lengths: bytes
    values: list[bytes]
    ages: bytes | None
    ids: list[bytes | None] | None
    absolute: bool
    atomic: bool
    position: tuple[str, str] | None
    weights: dict[int, bytes] = {}
    labels: tuple[tuple[str, ...], tuple[Values, ...], bytes] | None = None
    waits: bytes | None = None
    tag: int = 0


class JudgedEvents(Events, frozen=True, array_like=True, tag="judged"):
    """A batch of events. Whether they are late is judged as of `lag_ms` before now."""

    lag_ms: int = 0


class Create(_Header, frozen=True, array_like=True, tag="create"):
    """A new board. `uid` is random, so that no other board in any store has the same `uid`."""

    definition: bytes
    uid: str = ""
    tag: int = 0


class Redefine(_Header, frozen=True, array_like=True, tag="change"):
    definition: bytes
    tag: int = 0


class Delete(_Header, frozen=True, array_like=True, tag="delete"):
    """The end of a board. If the tag is 0, the changes of the board are removed as well. The tag is
    0 in logs of earlier versions, and after the board was moved to another store."""

    tag: int = 0


class Clear(_Header, frozen=True, array_like=True, tag="clear"):
    """All members of a board are removed. `version` is increased, so that plans and copies made
    before are outdated."""

    tag: int = 0


class Undelete(_Header, frozen=True, array_like=True, tag="undelete"):
    """A removed board exists again, without members. `restored` is its state (`BoardRecord`) with
    the definition that it has from here on. It has the number and the uid that it had before."""

    restored: bytes
    tag: int = 0


class Remove(_Header, frozen=True, array_like=True, tag="remove"):
    member: bytes
    tag: int = 0


class MemberData(_Header, frozen=True, array_like=True, tag="data"):
    """The JSON data of a member; None removes it."""

    member: bytes
    data: bytes | None
    tag: int = 0


class Position(_Header, frozen=True, array_like=True, tag="position"):
    """The new position of an import after a batch in which no event was accepted, so that the
    position is committed alone."""

    position: tuple[str, str]
    tag: int = 0


class DeletedPosition(_Header, frozen=True, array_like=True, tag="deleted_position"):
    """The new position of a sink in the changes of a deleted board."""

    position: tuple[str, str]


class Refresh(_Header, frozen=True, array_like=True, tag="refresh"):
    """A refresh of a window. At this point of the log, the window's ranking in every scope is
    recomputed from the tallies, over the steps that count at `now_ms`."""

    window: str


class EntryRows(Struct, frozen=True, array_like=True):
    """Entries of some members.

    For each member there is a flag that tells whether it has an entry; the words of the entries are
    packed column by column.
    """

    present: bytes
    words: tuple[bytes, ...]


class MendRanking(_OfPeriod, frozen=True, array_like=True, tag="mend"):
    """Entries to replace the current entries of their members in one ranking. With `expected`, a
    member is changed only if its current entry is the expected one."""

    scope: str
    members: bytes
    lengths: bytes
    entries: EntryRows
    expected: EntryRows | None = None
    tag: int = 0


class Hide(_Header, frozen=True, array_like=True, tag="hide"):
    """A member is hidden from now on, until `until_ms` if that is not None. It was first hidden at
    `since_ms`, which is earlier than now if this record replaces a hiding."""

    member: bytes
    reason: str
    since_ms: int
    until_ms: int | None
    tag: int = 0


class Show(_Header, frozen=True, array_like=True, tag="show"):
    """A member is no longer hidden."""

    member: bytes
    tag: int = 0


class HideOnAll(Hide, frozen=True, array_like=True, tag="hides"):
    """A member is hidden on all boards from now on, those created later included. `board` is
    `EVERYWHERE`."""


class ShowOnAll(Show, frozen=True, array_like=True, tag="shows"):
    """The hiding of a member on all boards ends. `board` is `EVERYWHERE`."""


class Adopt(_Header, frozen=True, array_like=True, tag="adopt"):
    """A new board that is being copied from another store: its `Origin`. Readers and writers cannot
    see the board until the copy is complete."""

    origin: bytes


class Content(_Header, frozen=True, array_like=True, tag="content"):
    """A piece of the state of a board that is being copied."""

    piece: bytes


class Adopted(_Header, frozen=True, array_like=True, tag="adopted"):
    """A record that ends the copying of a board, which is complete from here on."""

    tag: int = 0


class Close(_OfPeriod, frozen=True, array_like=True, tag="close"):
    """The closing of a period, which was final from `final_ms` on. From here on the rankings of the
    period do not change in any scope."""

    final_ms: int
    tag: int = 0


class Seal(_OfPeriod, frozen=True, array_like=True, tag="seal"):
    """The sealing of a closed period: its standings are in the archive, with this number of entries
    in all scopes and this digest."""

    final_ms: int
    revision: int
    entries: int
    digest: bytes
    tag: int = 0


class Confirm(_Header, frozen=True, array_like=True, tag="confirm"):
    """The confirmation that a payout was paid, with the reference of the payment. `board` is 0 if
    the board of the payout no longer exists."""

    payout: str
    reference: str
    member: bytes
    tag: int = 0


class EmitPayouts(_Header, frozen=True, array_like=True, tag="emit"):
    """Adds payouts to the list of due payouts: those after the place `after`, up to and including
    `until`, in the order of their due times and numbers. `counts` has, for each board that keeps
    changes, how many of these payouts belong to it. `board` is `EVERYWHERE`."""

    after: tuple[int, int]
    until: tuple[int, int]
    counts: dict[int, int]
    tag: int = 0


class Disqualify(_OfPeriod, frozen=True, array_like=True, tag="disqualify"):
    """A new revision of a sealed period, without a member in one scope or, if `scope` is None, in
    all scopes. Its standings are in the archive, with this number of entries in all scopes and this
    digest."""

    revision: int
    entries: int
    digest: bytes
    scope: str | None
    member: bytes
    reason: str
    tag: int = 0


class Erase(_Header, frozen=True, array_like=True, tag="erase"):
    """A member is erased from all boards: from here on a token stands in its places. `archived` are
    the numbers of the boards that have sealed periods with the member, or changes according to
    which it is hidden on all boards. `board` is `EVERYWHERE`."""

    member: bytes
    token: str
    reason: str
    archived: list[int]
    tag: int = 0


class Erased(_Header, frozen=True, array_like=True, tag="erased"):
    """The erasure of a member is complete: the archive, the payouts and the audit log do not have
    the member any more. `board` is `EVERYWHERE`."""

    member: bytes


Record = (
    Events
    | JudgedEvents
    | Create
    | Redefine
    | Delete
    | Remove
    | MemberData
    | Position
    | DeletedPosition
    | Refresh
    | MendRanking
    | Hide
    | Show
    | HideOnAll
    | ShowOnAll
    | Adopt
    | Content
    | Adopted
    | Close
    | Seal
    | Confirm
    | EmitPayouts
    | Disqualify
    | Erase
    | Erased
    | Clear
    | Undelete
)
COPIES = (Adopt, Content, Adopted)
_MENDED_TAGS = (b"\xa6judged", b"\xa4mend", b"\xa5adopt", b"\xa7content", b"\xa7adopted")
_NEW_TAGS = (
    b"\xa4hide",
    b"\xa4show",
    b"\xa5hides",
    b"\xa5shows",
    b"\xa5close",
    b"\xa4seal",
    b"\xb0deleted",
    b"\xa7confirm",
    b"\xa4emit",
    b"\xaadisqual",
    b"\xa5erase",
    b"\xa6erased",
    b"\xa5clear",
    b"\xa8undelet",
)


class _Entry(Struct, frozen=True, array_like=True):
    format: int
    records: list[Record]


class _RawEntry(Struct, frozen=True, array_like=True):
    format: int
    records: list[msgspec.Raw]


class _Format(Struct, frozen=True, array_like=True):
    format: int


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(_Entry)
_format_decoder = msgspec.msgpack.Decoder(_Format)


def encode_one(record: Record) -> msgspec.Raw:
    """Encode a record as a part of an entry."""
    return msgspec.Raw(_encoder.encode(record))


def encode(records: list[msgspec.Raw], *, own_times: bool = False) -> bytes:
    """Return the bytes of one log entry; with `own_times` each board has its own time."""
    log_format = _OWN_TIMES if own_times else _ONE_TIME
    for record in records:
        kind = bytes(memoryview(record)[1:9])  # the type of a record is the first item of its array
        if kind.startswith(_NEW_TAGS):
            log_format = FORMAT
        elif kind.startswith(_MENDED_TAGS) and log_format < _MENDED:
            log_format = _MENDED
    return _encoder.encode(_RawEntry(log_format, records))


def decode(body: bytes) -> list[Record]:
    """Return the records of one log entry. Raises FormatTooNew for a format that this version does
    not know, and LogDamaged for bytes that cannot be read."""
    try:
        if (log_format := _format_decoder.decode(body).format) > FORMAT:
            raise FormatTooNew(
                f"the log is written in format {log_format}, this version reads up to {FORMAT}"
            )
        return _decoder.decode(body).records
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise LogDamaged(f"a log entry cannot be read: {error}") from error
