"""The errors of laurels: one hierarchy of classes, with a stable code for each error.

A class defines the meaning of its code (the first line of its docstring), the advice (`advice`),
its HTTP status, and whether the same call may succeed later. Code that raises an error adds the
particulars only: `UnknownBoard("there is no board 'gifts'")`. The message `str(error)` consists of
the particulars and the advice.

Catch `LaurelsError` for all of them, or one of the families `InvalidInput`, `NotFound`, `Conflict`,
`TooLarge`, `Unavailable`, `Fault`. Programs distinguish errors by `code`, which never changes its
meaning.
"""

from collections.abc import Iterator, Sequence
from typing import Any, ClassVar, NamedTuple, Protocol


class LaurelsError(Exception):
    """The base class of all errors of laurels.

    `what` describes what happened, in lower case and without a full stop. The message,
    `str(error)`, is `what` and the advice of the class.
    """

    code: ClassVar[str]
    status: ClassVar[int]
    advice: ClassVar[str]
    retryable: ClassVar[bool] = False

    def __init__(self, what: str) -> None:
        self.what = what

    def __str__(self) -> str:
        return f"{self.what}; {self.advice}"


class LaurelsWarning(UserWarning):
    """The base class of all warnings of laurels."""


class DataAtRisk(LaurelsWarning):
    """An index server may lose counted events because of its settings; the text of the warning
    explains why."""


class AllEventsRefused(LaurelsWarning):
    """Every event of a batch was refused; the text of the warning has the first event's error."""


class NotInAuditLog(LaurelsWarning):
    """An administrative call was carried out, but is not in the audit log; the text of the warning
    has the error of the log."""


class InvalidInput(LaurelsError):  # noqa: N818 (a family, not an error)
    """The arguments are not well-formed; repeating the call does not help."""

    status = 400


class NotFound(LaurelsError):  # noqa: N818 (a family, not an error)
    """The board, member or other object that the call names does not exist."""

    status = 404


class Conflict(LaurelsError):  # noqa: N818 (a family, not an error)
    """The call is well-formed, but the stored state does not allow it."""

    status = 409


class TooLarge(LaurelsError):  # noqa: N818 (a family, not an error)
    """The call exceeds a limit of size."""

    status = 413


class Unavailable(LaurelsError):  # noqa: N818 (a family, not an error)
    """The call cannot be carried out now; the same call may succeed later."""

    status = 503
    retryable = True


class Fault(LaurelsError):  # noqa: N818 (a family, not an error)
    """The store or its environment is broken."""

    status = 500


# Boards and windows


class BoardInvalid(InvalidInput):
    """The definition of a board breaks one or more rules; `errors` lists all violations."""

    code = "invalid_board"
    advice = "correct the errors that the message names, and define the board again"

    def __init__(self, *errors: str) -> None:
        super().__init__("; ".join(errors))
        self.errors = list(errors)


class InvalidName(BoardInvalid):
    """The name of a board, column, window, sink or source is not well-formed."""

    code = "invalid_name"
    advice = (
        "use 1 to 64 ASCII letters, digits, '_', '.' and '-', beginning with a letter or a digit"
    )


class UnknownBoard(NotFound):
    """No board has this name."""

    code = "unknown_board"
    advice = "create the board, or use a name from the list of boards"


class BoardDeleted(UnknownBoard):
    """The board that the cursor belongs to was deleted, and all its changes have been read."""

    code = "board_deleted"
    status = 410
    advice = "stop reading with this cursor; a new board of the same name has cursors of its own"


class NotRestorable(UnknownBoard):
    """No removed board of this name can be restored."""

    code = "not_restorable"
    advice = (
        "only boards with sealed periods can be restored, and those that were moved to another "
        "store cannot: list them with restorable_boards"
    )


class BoardExists(Conflict):
    """A board of this name exists already."""

    code = "board_exists"
    advice = (
        "choose another name, or accept an existing board with an equal definition (exist_ok, "
        "on_exists=accept)"
    )


class UnsafeChange(Conflict):
    """The change would alter the meaning of counted events; `reasons` lists every reason."""

    code = "unsafe_change"
    advice = (
        "change only title, labels, keep, changes, changes_max, close_wait, head, hide_zero, "
        "starts, ends, retain, max_age and ledger, or keep, archive, archive_every and prizes of "
        "a window, or add windows, scopes and rank_by at the end; for other changes create a new "
        "board"
    )

    def __init__(self, *reasons: str) -> None:
        super().__init__("; ".join(reasons))
        self.reasons = list(reasons)


class PeriodsUnsealed(Conflict):
    """The board has closed periods that are not in the archive yet."""

    code = "periods_unsealed"
    advice = "seal them with `laurels seal`, or try again later"


class UnknownWindow(NotFound):
    """The board has no window of this name."""

    code = "unknown_window"
    advice = "use the name of one of the board's windows"


class UnknownColumn(NotFound):
    """The board has no column of this name."""

    code = "unknown_column"
    advice = "use the name of one of the board's columns"


class NotLive(Conflict):
    """The window is refreshed at intervals, so the effect of an event on it is unknown."""

    code = "not_live"
    advice = "use a window without refresh"


class MemberHidden(Conflict):
    """The member is hidden, so it has no position in any ranking."""

    code = "member_hidden"
    advice = "show the member again first, or ask about another member"


class HiddenEverywhere(Conflict):
    """The member is hidden on all boards, so it cannot be shown on one of them."""

    code = "hidden_everywhere"
    advice = "show the member on all boards (`show(None, member)`)"


class InvalidHiding(InvalidInput):
    """The reason or the end of a hiding is not valid."""

    code = "invalid_hiding"
    advice = "give a reason of 1 to 500 characters, and for `until` a time after now, or none"


class UnknownScope(NotFound):
    """The board has no ranking by these labels."""

    code = "unknown_scope"
    advice = "give the labels of one of the board's scopes"


class NoAllWindow(Conflict):
    """A total can be set only on a board with a ranking of all events in the window `all`."""

    code = "no_all_window"
    advice = "submit the difference instead, or use a board with the window all"


class SetWithTime(Conflict):
    """A total cannot be set as of a time, since an older value would overwrite a newer one."""

    code = "set_with_time"
    advice = (
        "leave `at` out; keep totals that another system counts in a column with op last, where "
        "an older value never overwrites a newer one (docs/sources.md)"
    )


class UnknownPeriod(NotFound):
    """The window has no period with this label."""

    code = "unknown_period"
    advice = "use a label from the list of periods"


class NotReady(Unavailable):
    """The ranking of a new step of a rolling window is still being prepared."""

    code = "not_ready"
    advice = "repeat the call: each call does a part of the remaining work"


class PeriodExpired(NotFound):
    """The period is older than the periods that the window keeps."""

    code = "period_expired"
    status = 410
    advice = "ask for a period from the list of kept periods, or keep more periods from now on"


class NotSealed(Conflict):
    """The period is not in the archive: it is not sealed yet, or nothing was ranked in it."""

    code = "not_sealed"
    advice = (
        "ask `periods` (`laurels board show`) for its state: a final period is sealed by itself or "
        "by `laurels seal`, if its window has `archive` or `prizes` and something was ranked in it"
    )


class UnknownRevision(NotFound):
    """The sealed period has no such revision."""

    code = "unknown_revision"
    advice = "ask for a revision from 0 up to the newest one, or leave `revision` out for that one"


class BeyondHead(Conflict):
    """The requested positions are below the positions that the board can list."""

    code = "beyond_head"
    advice = (
        "ask for positions within the head, or for the standing of a member; to list more, change "
        "the board's head"
    )


class PeriodFuture(NotFound):
    """The period has not begun yet."""

    code = "period_future"
    advice = "ask again when the period has begun, or leave `period` out for the current one"


# Members and ids


class MemberEmpty(InvalidInput):
    """The member id is empty."""

    code = "member_empty"
    advice = "name members by 1 to 128 bytes of UTF-8"


class MemberTooLong(InvalidInput):
    """The member id has more than 128 bytes in UTF-8."""

    code = "member_too_long"
    advice = "name members by 1 to 128 bytes of UTF-8"


class MemberNotUtf8(InvalidInput):
    """The member id cannot be encoded as UTF-8."""

    code = "member_not_utf8"
    advice = "decode the id with the encoding of its source, without lone surrogates"


class InvalidMember(InvalidInput):
    """A member id is not text, or several members are not given as a list."""

    code = "invalid_member"
    advice = "give a member id as text, and several as a list of texts"


class IdEmpty(InvalidInput):
    """The event id is empty."""

    code = "id_empty"
    advice = "leave the id out, or give 1 to 128 bytes of UTF-8"


class IdTooLong(InvalidInput):
    """The event id has more than 128 bytes in UTF-8."""

    code = "id_too_long"
    advice = "shorten the id to 128 bytes of UTF-8, for example by hashing it"


class IdNotUtf8(InvalidInput):
    """The event id cannot be encoded as UTF-8."""

    code = "id_not_utf8"
    advice = "decode the id with the encoding of its source, without lone surrogates"


class InvalidLabel(InvalidInput):
    """The labels are not a mapping of names to texts of 1 to 128 bytes."""

    code = "invalid_label"
    advice = "give labels as a mapping of names to texts of 1 to 128 bytes of UTF-8"


class UnknownLabel(InvalidInput):
    """An event has a label that its board does not have."""

    code = "unknown_label"
    advice = "leave the label out, or name it in a scope of the board"


class NoScope(InvalidInput):
    """An event lacks the labels of every scope of the board, so no ranking would count it."""

    code = "no_scope"
    advice = "give the event the labels of a scope, or add the scope [] to the board for all events"


class InvalidId(InvalidInput):
    """The event id is not text."""

    code = "invalid_id"
    advice = "give the id as text, or leave it out"


# Values


class InvalidValue(InvalidInput):
    """The value is not an exact number."""

    code = "invalid_value"
    advice = "give an integer, a decimal or decimal text; binary floats are refused as inexact"


class NotFinite(InvalidInput):
    """The value is NaN or infinite."""

    code = "not_finite"
    advice = "give a finite number, or leave the event out"


class TooManyPlaces(InvalidInput):
    """The value has more decimal places than the column's scale."""

    code = "too_many_places"
    advice = "round the value to the column's scale before sending it; laurels does not round"


class ValueOutOfRange(InvalidInput):
    """The value alone is outside the column's range."""

    code = "value_out_of_range"
    advice = (
        "keep values within the column's min and max, and within ±(2^53-1) units of its last "
        "decimal place"
    )


class UnknownMeasure(InvalidInput):
    """No column of the board has a weight for a measure of that name."""

    code = "unknown_measure"
    advice = (
        "send only measures that the board's columns have weights for, or the columns' own values"
    )


class WrongColumns(InvalidInput):
    """The value does not have one number for each column."""

    code = "wrong_columns"
    advice = "give a list with one number for each column of the board, in its order"


class TotalOutOfRange(Conflict):
    """With this event the member's total would leave the column's range; nothing was counted."""

    code = "total_out_of_range"
    advice = (
        "keep totals within the column's min and max, and within ±(2^53-1) units of its last "
        "decimal place"
    )


# Time


class InvalidAt(InvalidInput):
    """The time of the event is not valid."""

    code = "invalid_at"
    advice = (
        "give integer milliseconds since 1970 UTC or a time with its offset from UTC (in JSON as "
        "RFC 3339, in Python an aware datetime), in years 1900 to 9899"
    )


class AtInFuture(InvalidInput):
    """The time of the event is more than 5 s ahead of the clock."""

    code = "at_in_future"
    advice = "check the sender's clock, or leave `at` out to stamp the event on acceptance"


class AtRequired(InvalidInput):
    """The event has no time, and in event time every event needs one."""

    code = "at_required"
    advice = "give `at`, or open the store with the system clock"


class TooLate(Conflict):
    """Every window of the board refused the event, since its period accepts no more events."""

    code = "too_late"
    advice = (
        "send events within the windows' grace; the window all accepts events of any age, until "
        "the board's end and its grace have passed"
    )


class BoardNotStarted(Conflict):
    """The time of the event is before the start of its board."""

    code = "board_not_started"
    advice = "send events that are not earlier than the start, or let the board start earlier"


class BoardEnded(Conflict):
    """The time of the event is not before the end of its board."""

    code = "board_ended"
    advice = "send events with times before the end, or let the board end later"


# Events and batches


class InvalidEvent(InvalidInput):
    """The event lacks its member or value, has unknown fields, or is of another type."""

    code = "invalid_event"
    advice = (
        "give member and value, and optionally at, id and labels, by name or as a list (in Python "
        "also a tuple) in this order"
    )


class InvalidPosition(InvalidInput):
    """The position that is to be stored with a batch is not well-formed."""

    code = "invalid_position"
    advice = (
        "give the name of a source, its new position, and optionally the position that must be "
        "stored at present, each as text of up to 4,096 characters"
    )


class BatchTooLarge(TooLarge):
    """The batch has more than 100,000 events; nothing was counted."""

    code = "batch_too_large"
    advice = "send batches of at most 100,000 events"


class RefusedReceipts(Protocol):
    """The receipts of a refused batch: the part of `laurels.Receipts` that an error uses."""

    @property
    def applied(self) -> int: ...
    @property
    def unchanged(self) -> int: ...
    @property
    def duplicates(self) -> int: ...
    @property
    def refused(self) -> int: ...
    def error(self, i: int) -> LaurelsError | None: ...
    def __len__(self) -> int: ...
    def __getitem__(self, i: int) -> Any: ...
    def __iter__(self) -> Iterator[Any]: ...


class BatchRefused(Conflict):
    """An event of an all-or-nothing batch was refused, so nothing was counted.

    `receipts` has one receipt for each event of the batch, with the reasons.
    """

    code = "batch_refused"
    advice = "correct or leave out the events whose receipts are refused, and send the batch again"

    def __init__(self, what: str, receipts: RefusedReceipts) -> None:
        super().__init__(what)
        self.receipts = receipts


class AtomicAcrossShards(Conflict):
    """An all-or-nothing batch has members of several shards; nothing was counted."""

    code = "atomic_across_shards"
    advice = (
        "send the batch without all_or_nothing, or the events of one member alone, or use one shard"
    )


class PartlyCounted(Unavailable):
    """Some shards of a board have counted a batch; other shards have not, or may not have."""

    code = "partly_counted"
    advice = (
        "send the same batch again: its event ids or its position prevent counting an event twice"
    )


class PositionDiffers(Conflict):
    """An import continues with a batch other than the one that was counted in part.

    `ends_at` is the position at which the partly counted batch ended.
    """

    code = "position_differs"
    advice = "send the batch that ends at the named position, exactly as it was sent before"

    def __init__(self, what: str, ends_at: str | None = None) -> None:
        super().__init__(what)
        self.ends_at = ends_at


class ShardsDiffer(Conflict):
    """The shards of a board have counted a source up to different positions.

    One of the shards lost its newest writes, for example in a failover. Nothing was counted.
    `positions` has the position of each shard, in order; None for a shard that has counted nothing.
    """

    code = "shards_differ"
    advice = (
        "run the source, which counts the missing events; otherwise rebuild the "
        "board from its ledger (laurels rebuild)"
    )

    def __init__(self, what: str, positions: Sequence[str | None] = ()) -> None:
        super().__init__(what)
        self.positions = list(positions)


class PositionMoved(Conflict):
    """Another writer moved the position that a batch requires; nothing was counted."""

    code = "position_moved"
    advice = "read the position, and continue after it; run only one process for each import"


class DataMoved(Conflict):
    """The member's current data differs from the data given as `before`; nothing was changed."""

    code = "data_moved"
    advice = "read the data (`entries` with `with_data`), and decide again whether to write"


class DedupeFull(Unavailable):
    """The board remembers as many event ids as its dedupe_max allows."""

    code = "dedupe_full"
    advice = "send the event again when the dedupe time of older ids is over"


# Queries


class InvalidLimit(InvalidInput):
    """The limit is not an integer, or not in the range that the message names."""

    code = "invalid_limit"
    advice = "ask for fewer entries and continue with the next page, or export the board"


class InvalidOffset(InvalidInput):
    """The offset is not an integer of 0 or more, or is combined with a cursor."""

    code = "invalid_offset"
    advice = "give either an offset of 0 or more, or the cursor `after`"


class InvalidRank(InvalidInput):
    """The rank is not an integer of 1 or more."""

    code = "invalid_rank"
    advice = "count ranks from 1"


class InvalidRadius(InvalidInput):
    """The radius is not an integer from 0 to 5,000."""

    code = "invalid_radius"
    advice = "ask for at most 5,000 neighbours on each side"


class InvalidPercentile(InvalidInput):
    """The percentile is not a number from 0 to 100."""

    code = "invalid_percentile"
    advice = "give a number from 0 (the lowest) to 100 (the best)"


class InvalidRange(InvalidInput):
    """The bounds of the range are not scores, or the range is empty."""

    code = "invalid_range"
    advice = "give low <= high, each a number, or one number for each of the first columns"


class InvalidCursor(InvalidInput):
    """The cursor is not a cursor of this ranking."""

    code = "invalid_cursor"
    advice = "pass the `next` of the previous page unchanged, for the same board and window"


# Prizes


class NoPrizes(NotFound):
    """The window awards no prizes, or none in the scope."""

    code = "no_prizes"
    advice = "define prizes for the window, with the scopes in which they are awarded"


# Changes


class ChangesNotKept(Conflict):
    """The board keeps no changes."""

    code = "changes_not_kept"
    advice = (
        "set the board's `changes` to the duration for which changes are to be kept; earlier "
        "changes cannot be read"
    )


class ChangesExpired(NotFound):
    """The changes after this cursor are no longer kept."""

    code = "changes_expired"
    status = 410
    advice = (
        "start again with `initial`, which reads every current entry and then the changes since, "
        "or continue from the oldest cursor that is kept, without the changes in between"
    )


class CursorDiverged(Conflict):
    """The store does not have the change that the cursor names.

    The board was created again, or the store lost its newest data, or was restored from a backup.
    """

    code = "cursor_diverged"
    advice = (
        "start again with `initial`, which reads every current entry and then the changes since"
    )


# Data and JSON


class InvalidData(InvalidInput):
    """The member's data cannot be written as JSON."""

    code = "invalid_data"
    advice = (
        "give a value that JSON can express: text, finite numbers, true, false, "
        "null, lists and objects"
    )


class DataTooLarge(TooLarge):
    """The member's data has more than 1 KiB as JSON."""

    code = "data_too_large"
    advice = (
        "store only what a leaderboard shows, and keep the rest elsewhere under the member's id"
    )


class InvalidJson(InvalidInput):
    """The text is not JSON, or is JSON of another form than expected."""

    code = "invalid_json"
    advice = "send one JSON document in UTF-8, without NaN or Infinity"


class JsonTooDeep(InvalidInput):
    """The JSON is nested too deeply."""

    code = "json_too_deep"
    advice = "send flat documents; no endpoint and no file needs deep nesting"


# The store


class Locked(Conflict):
    """Another process has the folder open; `pid` is its process id, if it is known."""

    code = "locked"
    advice = (
        "stop that process, or use the store through it; only one process at a time "
        "can open a folder"
    )

    def __init__(self, what: str, pid: int | None = None) -> None:
        super().__init__(what)
        self.pid = pid


class Forked(Fault):
    """The store was opened in the parent of this process, before a fork."""

    code = "forked"
    advice = "open the store in the process that uses it, after the fork"


class Closed(Conflict):
    """The store is closed."""

    code = "closed"
    advice = "open the store again, and keep it open while it is used"


class StorageFailed(Unavailable):
    """The store could not be written or read; writes that were not acknowledged are not counted."""

    code = "storage_failed"
    advice = "look at the cause (disk full, permissions), then try again"


class SnapshotDamaged(Fault):
    """A snapshot or a backup is damaged: its content is not what was written."""

    code = "snapshot_damaged"
    advice = "use an older snapshot or backup, or take a new one; the content of this file is lost"


class ArchiveDamaged(Fault):
    """A segment of the archive is damaged: its content is not what was written."""

    code = "archive_damaged"
    advice = (
        "restore the archive folder or the tables of the ledger from a backup, and see that the "
        "ledger's URL is that of its database; no answer is made from damaged standings"
    )


class FolderNotEmpty(Conflict):
    """The folder to restore a backup into exists already and is not empty."""

    code = "folder_not_empty"
    advice = "name a folder that does not exist yet, or move its files elsewhere"


class BackupExists(Conflict):
    """The file to write a backup to exists already."""

    code = "backup_exists"
    advice = "name another file, or overwrite it with force"


class NothingToBackUp(Conflict):
    """A store in memory or on an index server has no files."""

    code = "nothing_to_back_up"
    advice = (
        "only a folder can be backed up: export the boards, or use the backups of the index server"
    )


class LogDamaged(Fault):
    """The log is damaged: a record is missing, or its content is not what was written."""

    code = "log_damaged"
    advice = "restore the folder from a backup; do not edit its files"


class CannotRewind(Conflict):
    """The folder cannot be rewound to that time."""

    code = "cannot_rewind"
    advice = (
        "restore a backup made before that time, or wait until the clock has reached the newest "
        "record"
    )


class FormatTooNew(Conflict):
    """The data has the format of a newer version of laurels, which this version does not know."""

    code = "format_too_new"
    advice = "use the version of laurels that wrote it, or a newer one"


class CheckFailed(Fault):
    """The stored rankings are inconsistent, or do not agree with the log."""

    code = "check_failed"
    advice = "rebuild the rankings from the log, and report the error"


class FolderMissing(NotFound):
    """The folder to open does not exist."""

    code = "folder_missing"
    advice = "check the path, or create a board, which creates the folder"


class UnknownUrl(InvalidInput):
    """The URL does not name a deployment."""

    code = "unknown_url"
    advice = "give a folder, memory:, a server (http://...) or an index server (redis://...)"


class InvalidClock(InvalidInput):
    """A clock or log option is not valid for this store, or the boards use another clock."""

    code = "invalid_clock"
    advice = "use system or event, or omit the option to keep the clock that the boards already use"


class ErrorRow(NamedTuple):
    """One row of the table of codes in docs/errors.md."""

    code: str
    name: str
    status: int
    retryable: bool
    meaning: str
    advice: str


def _classes_with_code(family: type[LaurelsError]) -> Iterator[type[LaurelsError]]:
    if "code" in vars(family):
        yield family
    for child in family.__subclasses__():
        yield from _classes_with_code(child)


def by_code(code: str) -> type[LaurelsError]:
    """Return the class with this `code`; raise KeyError if there is none."""
    return {error.code: error for error in _classes_with_code(LaurelsError)}[code]


def table() -> list[ErrorRow]:
    """Return the rows of all codes, in alphabetical order. Codes are known once the modules that
    define their classes have been imported."""
    return [
        ErrorRow(
            error.code,
            error.__name__,
            error.status,
            error.retryable,
            (error.__doc__ or "").splitlines()[0],
            error.advice,
        )
        for error in sorted(_classes_with_code(LaurelsError), key=lambda error: error.code)
    ]
