"""Boards: what is ranked and how. A definition is validated here as a whole, before it is used.

`Board` accepts what people write (text, milliseconds, objects), reports all errors at once, and
stores the canonical form, so that two definitions with the same meaning are equal (see
`board_fields.py`). `Board.rules()` resolves it to integers for counting. `board_change.py` makes
the changes that do not alter the meaning of counted events, and refuses all others.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct
from msgspec.structs import asdict, force_setattr

from laurels.errors import (
    BoardInvalid,
    FormatTooNew,
    InvalidJson,
    JsonTooDeep,
)
from laurels.model.windows.calendar import Weekday
from laurels.model.windows.forms import WindowDefaults
from laurels.model.windows.parsing import parse_window, stored_window
from laurels.timeline.instants import MAX_MS, MIN_MS
from laurels.timeline.zones import zone

from .answer import Plain
from .board_fields import (
    CLOSE_WAIT_DEFAULT,
    MAX_CHANGES_DEFAULT,
    TIES,
    Tie,
    UnnamedLabels,
    canonical_fields,
)
from .board_times import instant_of
from .column import Column, rule_of
from .definition_errors import DefinitionErrors
from .durations import duration_ms
from .prizes import Prizes
from .rules import ColumnRule, RankStyle, Rules
from .validation import integer_within, safe_repr

__all__ = ["FORMAT", "Board", "Column", "ColumnRule", "Rules"]

FORMAT = 1
"""The format of `Board.to_json`."""


class Board(Plain, Struct, frozen=True):
    """The definition of a board; raises BoardInvalid with every fault it has.

    `columns` are 1 to 4 components of a score, compared in turn. `tie` orders equal scores: with
    `first` or `last`, the member that reached the score first or last ranks higher, at a resolution
    of `tie_resolution`; with `member`, the id alone decides. `rank` numbers equal scores 1,2,3,4
    (`ordinal`), 1,2,2,4 (`competition`) or 1,2,2,3 (`dense`). `windows` say which events count
    together; a query that names no window reads the first. `tz`, `week_start`, `grace` and `keep`
    apply to every window without a setting of its own; the grace of a rolling window is at most its
    span less a step. Event ids are remembered for `dedupe`, at most `dedupe_max` of them at a time.
    `dedupe` is at least the longest grace, and by default also at least an hour. On an index
    server, the members are divided over `shards` shards, which may lie on several nodes; a board in
    one process is not divided.

    Events may carry labels, such as room=42. `scopes` are lists of label names: an event is counted
    in each scope for which it has all labels, and `[]` is the scope of all events. The values of
    the labels in `rank_by` are ranked themselves, by the same events. An event with a label that
    the board does not name is refused, or with `labels="ignore"` counted without that label.

    `changes` is a duration, or empty. The board keeps for that long what every event changed, at
    most `changes_max` changes, for programs that follow the board; if empty, it keeps none.

    With a `head` from 100 to 100,000, the board lists only that many leading positions, and a
    member below them may have an estimated rank, between two certain bounds; with 0 it lists all.

    With `hide_zero`, a member whose score is 0 in every column is counted but not ranked: it is in
    no list, and no rank, total or percentage includes it, until its score changes.

    On a board that sources feed, events of a period count for up to `close_wait` after the grace,
    if their stream took them within the grace.

    With the times `starts` and `ends`, the board counts only events from `starts` to just before
    `ends`; others are refused. In each window, the period or step that contains `ends` is cut off
    there and remains the current one. Once the grace is over, answers no longer change. `retain` is
    a duration, or empty. The board is removed with all its data when this time has passed since its
    end; if `retain` is empty, the board stays.

    The periods of a window with `archive` or `prizes` are closed at the end of their grace: from
    then on nothing changes their standings, which are written to the archive. On an index server
    the archive is in the tables of a `ledger`: the name of a database that every process of the
    boards is configured with. A store in a folder or in memory has an archive of its own, and
    ignores the name.

    On an index server, a process may repeat an answer from its memory until the answer is older
    than the duration `max_age`; with 0 it always asks the server.

    A window without a name of its own is named by its text without the options: `month:keep=12` is
    called `month`.

    A duration is text (`500ms`, `5s`, `5m`, `1h`, `7d`) or milliseconds. A time is text in ISO 8601
    (in the zone `tz` if it has no offset), an aware datetime or milliseconds since 1970. A window
    is text (`month:keep=12`, `today=day`, `7d=rolling:7d/1h`, `hot=decay:6h`) or a mapping. A
    column is a `Column` or a mapping. The fields hold the canonical form: tuples, and text for
    windows, durations and times (UTC).
    """

    name: str
    title: str = ""
    columns: tuple[Column, ...] = (Column(),)
    tie: Tie = "first"
    tie_resolution: str = "1ms"
    rank: RankStyle = "ordinal"
    windows: tuple[str, ...] = ("all",)
    tz: str = "UTC"
    week_start: Weekday = "monday"
    grace: str = "5m"
    dedupe: str = ""
    dedupe_max: int = 1_000_000
    keep: int = 2
    shards: int = 1
    scopes: tuple[tuple[str, ...], ...] = ((),)
    rank_by: tuple[str, ...] = ()
    labels: UnnamedLabels = "refuse"
    changes: str = ""
    changes_max: int = MAX_CHANGES_DEFAULT
    head: int = 0
    hide_zero: bool = False
    close_wait: str = CLOSE_WAIT_DEFAULT
    starts: str = ""
    ends: str = ""
    retain: str = ""
    max_age: str = "0s"
    ledger: str = ""

    if TYPE_CHECKING:  # the types that the constructor accepts are wider than the stored types

        def __init__(
            self,
            name: str,
            *,
            title: str = "",
            columns: Sequence[Column | Mapping[str, Any]] = ...,
            tie: Tie = "first",
            tie_resolution: str | int = "1ms",
            rank: RankStyle = "ordinal",
            windows: Sequence[str | Mapping[str, Any]] = ...,
            tz: str = "UTC",
            week_start: Weekday = "monday",
            grace: str | int = "5m",
            dedupe: str | int = ...,
            dedupe_max: int = 1_000_000,
            keep: int = 2,
            shards: int = 1,
            scopes: Sequence[Sequence[str]] = ((),),
            rank_by: str | Sequence[str] = (),
            labels: UnnamedLabels = "refuse",
            changes: str | int = "",
            changes_max: int = MAX_CHANGES_DEFAULT,
            head: int = 0,
            hide_zero: bool = False,
            close_wait: str | int = CLOSE_WAIT_DEFAULT,
            starts: str | datetime | int | None = "",
            ends: str | datetime | int | None = "",
            retain: str | int = "",
            max_age: str | int = "0s",
            ledger: str = "",
        ) -> None: ...

    def __post_init__(self) -> None:
        for field, value in canonical_fields(asdict(self)).items():
            force_setattr(self, field, value)

    def rules(self) -> Rules:
        """Return the definition resolved to integers and windows."""
        zone_of = zone(self.tz)
        starts_ms = instant_of("starts", self.starts, zone_of)
        ends_ms = instant_of("ends", self.ends, zone_of)
        defaults = WindowDefaults(
            self.tz,
            self.week_start,
            self.keep,
            duration_ms(self.grace),
            MAX_MS if ends_ms is None else ends_ms,
        )
        forms = list(map(parse_window, self.windows))
        windows = [form.window(defaults) for form in forms]
        return Rules(
            columns=tuple(map(rule_of, self.columns)),
            tie=TIES[self.tie],
            resolution_ms=duration_ms(self.tie_resolution),
            rank=self.rank,
            windows={window.name: window for window in windows},
            grace_ms=defaults.grace_ms,
            dedupe_ms=duration_ms(self.dedupe),
            dedupe_max=self.dedupe_max,
            shards=self.shards,
            scopes=self.scopes,
            rank_by=self.rank_by,
            ignores_labels=self.labels == "ignore",
            changes_ms=duration_ms(self.changes) if self.changes else 0,
            changes_max=self.changes_max,
            head=self.head,
            hide_zero=self.hide_zero,
            close_wait_ms=duration_ms(self.close_wait),
            starts_ms=MIN_MS if starts_ms is None else starts_ms,
            ends_ms=defaults.ends_ms,
            gone_ms=_gone_ms(defaults.ends_ms, self.retain),
            max_age_ms=duration_ms(self.max_age),
            closing={form.name: each for form in forms if (each := form.closing) is not None},
        )

    def prizes(self) -> dict[str, Prizes]:
        """Return the prizes of the windows that have some, by the name of the window."""
        forms = map(parse_window, self.windows)
        return {form.name: form.prizes for form in forms if form.prizes is not None}

    def to_json(self) -> bytes:
        """Return the definition as JSON; equal boards give equal bytes. Fields that earlier
        versions did not know are left out if they have their defaults."""
        windows = [parse_window(text).stored_text for text in self.windows]
        columns = [_stored_column(column) for column in self.columns]
        fields = {"format": FORMAT, **asdict(self), "columns": columns, "windows": windows}
        for later, default in _LATER_FIELDS.items():
            if fields[later] == default:
                del fields[later]
        return msgspec.json.encode(fields)

    def to_dict(self) -> dict[str, Any]:
        """Return the definition as plain values: the fields of `to_json`.

        `from_json` reads them.
        """
        return dict(msgspec.json.decode(self.to_json()))

    @classmethod
    def from_json(cls, written: bytes | str | Mapping[str, Any]) -> "Board":
        """Return the board defined by JSON, or by a mapping of the same form.

        A definition with the field `format` is read as `to_json` writes it: a window without a name
        of its own is then named by its whole text with the options, as in earlier versions. Raise
        InvalidJson, JsonTooDeep, FormatTooNew, or BoardInvalid with every fault.
        """
        fields = _fields_of(written)
        if "format" in fields and "windows" in fields:
            fields["windows"] = _stored_windows(fields["windows"])
        format = fields.pop("format", FORMAT)
        if integer_within(format, FORMAT + 1) is not None:
            raise FormatTooNew(
                f"the definition of the board has format {format}, this laurels reads {FORMAT}"
            )
        errors = DefinitionErrors()
        if integer_within(format, 1) is None:
            errors.add(f"expected format {FORMAT}, got {safe_repr(format)}")
        for unknown in sorted(fields.keys() - set(cls.__struct_fields__), key=str):
            errors.add(f"unknown field {safe_repr(unknown)}")
            del fields[unknown]
        try:
            board = cls(**{"name": "", **fields})
        except BoardInvalid as error:
            errors.add_error(error)
        errors.raise_any()
        return board


_LATER_FIELDS = {
    "labels": "refuse",
    "changes": "",
    "changes_max": MAX_CHANGES_DEFAULT,
    "head": 0,
    "hide_zero": False,
    "close_wait": CLOSE_WAIT_DEFAULT,
    "starts": "",
    "ends": "",
    "retain": "",
    "max_age": "0s",
    "ledger": "",
}
"""The fields that earlier versions did not know, each with its default."""


def _gone_ms(ends_ms: int, retain: str) -> int:
    """Return the instant at which a board is removed; MAX_MS if it stays."""
    return min(ends_ms + duration_ms(retain), MAX_MS) if retain else MAX_MS


def _stored_column(column: Column) -> dict[str, Any]:
    """Return the fields of a column as they are in JSON.

    The field `measures` is left out if the column has none, as in JSON of earlier versions.
    """
    fields = asdict(column)
    if not fields["measures"]:
        del fields["measures"]
    return fields


def _fields_of(written: object) -> dict[str, Any]:
    """Return the fields of a JSON definition; numbers with a decimal point are exact."""
    if isinstance(written, Mapping):
        return dict(written)
    if not isinstance(written, (bytes, str)):
        raise BoardInvalid(
            f"expected a board as a Board, a mapping or JSON, got {safe_repr(written)}"
        )
    try:
        fields = _decoder.decode(written)
    except RecursionError as error:
        raise JsonTooDeep("the definition of the board is nested too deeply") from error
    except (msgspec.MsgspecError, UnicodeError) as error:
        raise InvalidJson(f"the definition of the board is not JSON: {error}") from error
    if not isinstance(fields, dict):
        raise InvalidJson(f"expected a JSON object that defines a board, got {safe_repr(fields)}")
    return fields


_decoder = msgspec.json.Decoder(float_hook=Decimal)


def _stored_windows(written: object) -> object:
    """Return the windows of a stored definition. Windows that cannot be read are left unchanged,
    and `canonical_fields` reports them."""
    if not isinstance(written, Sequence) or isinstance(written, (str, bytes)):
        return written

    def read(window: object) -> object:
        try:
            return stored_window(window)
        except BoardInvalid:
            return window

    return [read(window) for window in written]
