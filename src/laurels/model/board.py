"""Boards: what is ranked and how. A definition is validated here as a whole, before it is used.

`Board` accepts what people write (text, milliseconds, objects), reports all faults at once, and
stores the canonical form, so that two definitions with the same meaning are equal. `Board.rules()`
resolves it to integers for counting. `safe_change` makes the changes that do not alter the meaning
of what was counted, and refuses the others.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from decimal import Decimal
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, TypeVar, get_args

import msgspec
from msgspec import Struct
from msgspec.structs import asdict, force_setattr, replace

from laurels.errors import (
    BoardInvalid,
    FormatTooNew,
    InvalidJson,
    InvalidName,
    JsonTooDeep,
    UnsafeChange,
)
from laurels.model.windows.calendar import Weekday
from laurels.model.windows.forms import (
    WindowDefaults,
    WindowForm,
    keep_of,
    parse_window,
    stored_window,
    tz_of,
    week_start_of,
)

from .answer import Plain
from .column import Column, judged_columns, rule_of
from .definition_errors import DefinitionErrors
from .durations import MAX_DURATION_MS, duration_ms, duration_of, duration_text
from .head import head_errors, head_of
from .rules import ColumnRule, RankStyle, Rules
from .scopes import judged_rank_by, judged_scopes, place_errors
from .validation import integer_within, is_name, is_unicode, one_of, safe_repr

__all__ = ["FORMAT", "Board", "Column", "ColumnRule", "Rules", "named_as", "safe_change"]

FORMAT = 1
"""The format of `Board.to_json`."""
MAX_WINDOWS = 16
MAX_TITLE = 200
MAX_DEDUPE = 100_000_000
MAX_SHARDS = 64
MAX_CHANGES_DEFAULT = 10_000_000
MOST_CHANGES = 1_000_000_000

T = TypeVar("T")
F = TypeVar("F")
Tie = Literal["first", "last", "member"]
UnnamedLabels = Literal["refuse", "ignore"]
"""What happens to labels of events that a board does not have."""
_TIES: dict[Tie, Literal[1, -1, 0]] = {"first": 1, "last": -1, "member": 0}


class Board(Plain, Struct, frozen=True):
    """The definition of a board; raises BoardInvalid with every fault it has.

    `columns` are 1 to 4 components of a score, compared in turn. Among equal scores, `tie` puts
    who reached it `first` higher, or who did `last`, or goes by `member` id alone, at a
    resolution of `tie_resolution`. `rank` numbers equal scores 1,2,3,4 (`ordinal`), 1,2,2,4
    (`competition`) or 1,2,2,3 (`dense`). `windows` say which events count together; a question
    that names none means the first. `tz`, `week_start`, `grace` and `keep` hold for every window
    that does not say otherwise; the grace of a rolling one is cut to its span less a step. An
    event id is remembered for `dedupe`, by default an hour or the longest grace, which it is never
    shorter than, and at most `dedupe_max` of them at a time. On an index server, the members are
    divided over so many `shards`, each of which may lie on another node; a board in one process is
    not divided.

    Events may carry labels, such as room=42. `scopes` are lists of label names: an event is counted
    in each scope that it has all labels for, `[]` being the scope of all events. The values of the
    labels in `rank_by` are ranked themselves, by the same events. An event with a label that the
    board does not name is refused, or with `labels="ignore"` counted without that label.

    With `changes`, a duration, the board keeps what every event changed for that long, at most
    `changes_max` changes, for programs that follow it; empty, it keeps none.

    With a `head`, the board lists its first so many positions only (100 to 100,000; 0: all of
    them), and a member below may have an estimated rank, between two certain bounds.

    A window without a name of its own goes by its text without the options: `month:keep=12` is
    called `month`.

    Durations are text (`500ms`, `5s`, `5m`, `1h`, `7d`) or milliseconds, windows text
    (`month:keep=12`, `today=day`, `7d=rolling:7d/1h`, `hot=decay:6h`) or mappings, columns
    `Column`s or mappings.
    The fields hold the canonical form: tuples, and text for windows and durations.
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

    if TYPE_CHECKING:  # the accepted types are wider than the stored ones

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
        ) -> None: ...

    def __post_init__(self) -> None:
        for field, value in _judged(asdict(self)).items():
            force_setattr(self, field, value)

    def rules(self) -> Rules:
        """Return the definition resolved to integers and windows."""
        defaults = WindowDefaults(self.tz, self.week_start, self.keep, duration_ms(self.grace))
        windows = [parse_window(text).window(defaults) for text in self.windows]
        return Rules(
            columns=tuple(map(rule_of, self.columns)),
            tie=_TIES[self.tie],
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
        )

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
        """Return the definition as plain values, those of `to_json`; `from_json` reads it."""
        return dict(msgspec.json.decode(self.to_json()))

    @classmethod
    def from_json(cls, written: bytes | str | Mapping[str, Any]) -> "Board":
        """Return the board defined by JSON, or by a mapping of the same form.

        With a `format` it is read in the form of `to_json`: there, a window without a name in front
        is named by its whole text, options included, as in earlier versions. Raise InvalidJson,
        JsonTooDeep, FormatTooNew, or BoardInvalid with every fault.
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


_LATER_FIELDS = {"labels": "refuse", "changes": "", "changes_max": MAX_CHANGES_DEFAULT, "head": 0}
"""The fields that earlier versions did not know, with their defaults."""


def _stored_column(column: Column) -> dict[str, Any]:
    """Return the fields of a column as JSON has them: without measures if there are none, as
    earlier versions wrote it."""
    fields = asdict(column)
    if not fields["measures"]:
        del fields["measures"]
    return fields


def safe_change(old: Board, changes: Mapping[str, Any]) -> Board:
    """Return the board with these fields changed, if the meaning of what was counted stays the
    same.

    Title, `changes`, `changes_max`, `head` and `keep` may change, `keep` of the board or of a
    window. Windows, scopes and labels to rank by may be added at the end; they count from then on.
    A field with its present value is not a change. Raise UnsafeChange with every reason, or
    BoardInvalid with every fault.
    """
    new = named_as(Board.from_json({**asdict(old), **changes}), old)
    reasons = [
        _STAYS[field]
        for field in Board.__struct_fields__
        if field in _STAYS and getattr(new, field) != getattr(old, field)
    ]
    reasons += _unsafe_windows(old, new)
    if new.scopes[: len(old.scopes)] != old.scopes:
        reasons.append("scopes stay in their order, new ones come at the end")
    if new.rank_by[: len(old.rank_by)] != old.rank_by:
        reasons.append("labels in rank_by stay in their order, new ones come at the end")
    if reasons:
        raise UnsafeChange(*reasons)
    return new


def named_as(new: Board, old: Board) -> Board:
    """Return the definition with its windows named as in an older one of the same board, where a
    window without a name of its own may be named by its whole text, as in earlier versions."""
    names = {parse_window(text).name for text in old.windows}

    def named(form: WindowForm) -> WindowForm:
        if form.own_name is None and form.name not in names and form.full_name in names:
            return form.named_in_full()
        return form

    windows = tuple([named(parse_window(text)).text for text in new.windows])
    return new if windows == new.windows else replace(new, windows=windows)


_STAYS = {
    "name": "the name of a board stays",
    "columns": "columns cannot change: the scores there are counted by them",
    "tie": "tie cannot change: the rankings there are ordered by it",
    "tie_resolution": "tie_resolution cannot change: the rankings there are ordered by it",
    "rank": "rank cannot change: the same score would have another rank",
    "tz": "tz cannot change: the boundaries of the periods there would move",
    "week_start": "week_start cannot change: the boundaries of the weeks there would move",
    "grace": "grace cannot change: events were refused or taken by it",
    "dedupe": "dedupe cannot change: ids are remembered for that long",
    "shards": "shards cannot change: each member there lies in its shard",
    "dedupe_max": "dedupe_max cannot change: events were refused or taken by it",
}


def _unsafe_windows(old: Board, new: Board) -> list[str]:
    """Return why the windows of one board cannot become those of the other; empty if they can."""
    before = [parse_window(text) for text in old.windows]
    after = {form.name: form for form in map(parse_window, new.windows)}
    reasons = []
    for form in before:
        if form.name not in after:
            reasons.append(f"window {form.name!r} cannot go: what it counted would be lost")
        elif replace(after[form.name], keep=form.keep, own_name=form.own_name) != form:
            what = "in nothing" if form.type in ("rolling", "decay") else "in nothing but keep"
            reasons.append(f"window {form.name!r} can change {what}")
    if not reasons and list(after)[: len(before)] != [form.name for form in before]:
        reasons.append("windows stay in their order, new ones come at the end")
    return reasons


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


_DURATIONS = {"tie_resolution": 1, "grace": 0, "dedupe": MAX_DURATION_MS}
"""The durations of a board, with a valid value in place of one that cannot be read."""
_LEAST_DEDUPE_MS = 3_600_000
"""The `dedupe` of a board that does not define it, unless a grace is longer."""


def _judged(given: Mapping[str, Any]) -> dict[str, object]:
    """Return the fields of a board in canonical form. Raise BoardInvalid with every fault."""
    errors = DefinitionErrors()

    def read(field: str, judge: Callable[[object], T], fallback: F) -> T | F:
        return errors.read(judge, given[field], fallback)

    windows = read("windows", _windows, ())
    fields: dict[str, object] = {
        "name": read("name", _name, ""),
        "title": read("title", _title, ""),
        "columns": read("columns", judged_columns, ()),
        "tie": read("tie", lambda value: one_of(value, _TIES, "tie"), "first"),
        "rank": read("rank", lambda value: one_of(value, get_args(RankStyle), "rank"), "ordinal"),
        "windows": tuple([form.text for form in windows]),
        "tz": read("tz", tz_of, ""),
        "week_start": read("week_start", week_start_of, "monday"),
        "dedupe_max": read("dedupe_max", _dedupe_max, 0),
        "keep": read("keep", keep_of, 1),
        "shards": read("shards", _shards, 1),
        "scopes": read("scopes", judged_scopes, ((),)),
        "rank_by": read("rank_by", judged_rank_by, ()),
        "changes": "",
        "changes_max": read("changes_max", _changes_max, MAX_CHANGES_DEFAULT),
        "head": read("head", head_of, 0),
        "labels": read(
            "labels", lambda value: one_of(value, get_args(UnnamedLabels), "labels"), "refuse"
        ),
    }
    if given["changes"] != "":
        changes_ms = read("changes", partial(duration_of, "changes"), 1)
        if changes_ms == 0:
            errors.add("expected changes to be 1ms or longer, or empty for none, got 0")
        fields["changes"] = duration_text(changes_ms)
    durations_ms = {
        field: read(field, partial(duration_of, field), fallback_ms)
        for field, fallback_ms in _DURATIONS.items()
        if field != "dedupe" or given[field] != ""
    }
    graces_ms = [form.grace_ms for form in windows if form.grace_ms is not None]
    longest_ms = max([durations_ms["grace"], *graces_ms])
    durations_ms.setdefault("dedupe", max(_LEAST_DEDUPE_MS, longest_ms))
    fields |= {field: duration_text(length_ms) for field, length_ms in durations_ms.items()}
    if durations_ms["tie_resolution"] == 0:
        errors.add("expected tie_resolution to be 1ms or longer, got 0")
    if fields["rank"] == "dense" and fields["shards"] != 1:
        errors.add(
            f"dense ranks need the distinct scores in one place, but shards is {fields['shards']}: "
            "take shards 1, or rank by competition"
        )
    for error in _decay_errors(windows, fields["columns"]):
        errors.add(error)
    scopes, rank_by = fields["scopes"], fields["rank_by"]
    assert isinstance(scopes, tuple)
    assert isinstance(rank_by, tuple)
    if fields["head"]:
        for error in head_errors(windows, fields["rank"], scopes, rank_by):
            errors.add(error)
    for error in place_errors(len(windows), len(scopes), len(rank_by)):
        errors.add(error)
    if durations_ms["dedupe"] < longest_ms:
        errors.add(f"dedupe is shorter than the longest grace, {duration_text(longest_ms)}")
    errors.raise_any()
    return fields


def _decay_errors(windows: Sequence[WindowForm], columns: object) -> Iterator[str]:
    """Yield why scores of these columns cannot decay; nothing if no window has decay."""
    assert isinstance(columns, tuple)
    decay = next((form for form in windows if form.type == "decay"), None)
    if decay is None or not columns:
        return
    if len(columns) > 1:
        yield (
            f"expected 1 column for window {decay.name!r}, which decays, got {len(columns)}: give "
            "the column that is to decay a board of its own"
        )
    elif columns[0].op != "sum":
        yield (
            f"expected op sum for window {decay.name!r}, which decays, got {columns[0].op}: "
            "take op sum"
        )


def _name(value: object) -> str:
    if is_name(value):
        return value
    raise InvalidName(f"expected a name for a board, got {safe_repr(value)}")


def _title(value: object) -> str:
    if isinstance(value, str) and len(value) <= MAX_TITLE and is_unicode(value):
        return value
    raise BoardInvalid(
        f"expected text of at most {MAX_TITLE} characters for title, got {safe_repr(value)}"
    )


def _dedupe_max(value: object) -> int:
    if (most := integer_within(value, 0, MAX_DEDUPE)) is not None:
        return most
    raise BoardInvalid(
        f"expected an integer from 0 to {MAX_DEDUPE:,} for dedupe_max, got {safe_repr(value)}"
    )


def _changes_max(value: object) -> int:
    if (most := integer_within(value, 1, MOST_CHANGES)) is not None:
        return most
    raise BoardInvalid(
        f"expected an integer from 1 to {MOST_CHANGES:,} for changes_max, got {safe_repr(value)}"
    )


def _shards(value: object) -> int:
    if (count := integer_within(value, 1, MAX_SHARDS)) is not None:
        return count
    raise BoardInvalid(
        f"expected an integer from 1 to {MAX_SHARDS} for shards, got {safe_repr(value)}"
    )


def _windows(given: object) -> tuple[WindowForm, ...]:
    if not isinstance(given, Sequence) or isinstance(given, (str, bytes)):
        raise BoardInvalid(f"expected a list of windows, got {safe_repr(given)}")
    if not 1 <= len(given) <= MAX_WINDOWS:
        raise BoardInvalid(f"expected 1 to {MAX_WINDOWS} windows, got {len(given)}")
    errors = DefinitionErrors()
    read = [errors.read(parse_window, window, None) for window in given]
    forms = _told_apart([form for form in read if form])
    for name, count in Counter([form.name for form in forms]).items():
        if count > 1:
            errors.add(f"expected distinct window names, got {name!r} {count} times")
    errors.raise_any()
    return tuple(forms)


def _told_apart(forms: Sequence[WindowForm]) -> list[WindowForm]:
    """Return the forms, named by their whole text if they share their short name with another:
    `day` and `day:tz=Asia/Tokyo` stay different."""
    names = Counter([form.name for form in forms])
    return [
        form.named_in_full() if form.own_name is None and names[form.name] > 1 else form
        for form in forms
    ]


def _stored_windows(written: object) -> object:
    """Return the windows of a stored definition; unreadable ones are left for `_judged` to
    report."""
    if not isinstance(written, Sequence) or isinstance(written, (str, bytes)):
        return written

    def read(window: object) -> object:
        try:
            return stored_window(window)
        except BoardInvalid:
            return window

    return [read(window) for window in written]
