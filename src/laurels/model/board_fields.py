"""The fields of a definition: what people write, validated and in canonical form."""

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Literal, TypeVar, get_args

from laurels.errors import BoardInvalid, InvalidName
from laurels.model.windows.forms import WindowForm
from laurels.model.windows.parsing import keep_of, parse_window, tz_of, week_start_of
from laurels.timeline.zones import Zone, zone

from .board_times import instant_of, instant_text
from .column import canonical_columns
from .definition_errors import DefinitionErrors
from .durations import MAX_DURATION_MS, duration_ms, duration_of, duration_text
from .head import head_errors, head_of
from .prizes import prize_errors
from .rules import RankStyle
from .scopes import canonical_rank_by, canonical_scopes, ranking_errors
from .validation import integer_within, is_name, is_unicode, one_of, quoted, safe_repr

MAX_WINDOWS = 16
MAX_TITLE = 200
MAX_DEDUPE = 100_000_000
MAX_SHARDS = 64
MAX_CHANGES_DEFAULT = 10_000_000
CLOSE_WAIT_DEFAULT = "1d"
MOST_CHANGES = 1_000_000_000
_LEDGER_NAME = re.compile("[a-z][a-z0-9_]{0,31}")

T = TypeVar("T")
F = TypeVar("F")
Tie = Literal["first", "last", "member"]
UnnamedLabels = Literal["refuse", "ignore"]
"""What to do with labels of events that the board does not name."""
TIES: dict[Tie, Literal[1, -1, 0]] = {"first": 1, "last": -1, "member": 0}
_DURATIONS = {
    "tie_resolution": 1,
    "grace": 0,
    "close_wait": 0,
    "max_age": 0,
    "dedupe": MAX_DURATION_MS,
}
"""The fields that are durations, each with a value. The value replaces an invalid duration while
the other fields are checked."""
_LEAST_DEDUPE_MS = 3_600_000
"""The default of `dedupe`; if a grace is longer, the longest grace is the default instead."""


def canonical_fields(arguments: Mapping[str, Any]) -> dict[str, object]:
    """Return the fields of a board in canonical form. Raise BoardInvalid with every fault."""
    errors = DefinitionErrors()

    def read(field: str, judge: Callable[[object], T], fallback: F) -> T | F:
        return errors.read(judge, arguments[field], fallback)

    windows = read("windows", _windows, ())
    fields: dict[str, object] = {
        "name": read("name", _name, ""),
        "title": read("title", _title, ""),
        "columns": read("columns", canonical_columns, ()),
        "tie": read("tie", lambda value: one_of(value, TIES, "tie"), "first"),
        "rank": read("rank", lambda value: one_of(value, get_args(RankStyle), "rank"), "ordinal"),
        "windows": tuple([form.text for form in windows]),
        "tz": read("tz", tz_of, ""),
        "week_start": read("week_start", week_start_of, "monday"),
        "dedupe_max": read("dedupe_max", _dedupe_max, 0),
        "keep": read("keep", keep_of, 1),
        "shards": read("shards", _shards, 1),
        "scopes": read("scopes", canonical_scopes, ((),)),
        "rank_by": read("rank_by", canonical_rank_by, ()),
        "changes": "",
        "retain": "",
        "changes_max": read("changes_max", _changes_max, MAX_CHANGES_DEFAULT),
        "head": read("head", head_of, 0),
        "hide_zero": read("hide_zero", _hide_zero, False),
        "ledger": read("ledger", _ledger, ""),
        "labels": read(
            "labels", lambda value: one_of(value, get_args(UnnamedLabels), "labels"), "refuse"
        ),
    }
    if fields["tz"]:
        fields |= _limits(arguments, zone(str(fields["tz"])), errors)
    if arguments["changes"] != "":
        changes_ms = read("changes", partial(duration_of, "changes"), 1)
        if changes_ms == 0:
            errors.add("expected changes to be 1ms or longer, or empty for none, got 0")
        fields["changes"] = duration_text(changes_ms)
    if arguments["retain"] != "":
        retain_ms = read("retain", partial(duration_of, "retain"), MAX_DURATION_MS)
        fields["retain"] = duration_text(retain_ms)
    durations_ms = {
        field: read(field, partial(duration_of, field), fallback_ms)
        for field, fallback_ms in _DURATIONS.items()
        if field != "dedupe" or arguments[field] != ""
    }
    graces_ms = [form.grace_ms for form in windows if form.grace_ms is not None]
    longest_ms = max([durations_ms["grace"], *graces_ms])
    durations_ms.setdefault("dedupe", max(_LEAST_DEDUPE_MS, longest_ms))
    fields |= {field: duration_text(length_ms) for field, length_ms in durations_ms.items()}
    for error in _errors_between_fields(fields, windows, durations_ms, longest_ms):
        errors.add(error)
    errors.raise_any()
    return fields


def _limits(
    arguments: Mapping[str, Any], zone: Zone, errors: DefinitionErrors
) -> dict[str, object]:
    """Return the start and the end of a board, in canonical form; add errors in them to
    `errors`."""
    starts_ms, ends_ms = [
        errors.read(partial(instant_of, field, zone=zone), arguments[field], None)
        for field in ("starts", "ends")
    ]
    starts, ends = instant_text(starts_ms), instant_text(ends_ms)
    if starts_ms is not None and ends_ms is not None and starts_ms >= ends_ms:
        errors.add(f"expected ends to be later than starts, {starts}, got {ends}")
    return {"starts": starts, "ends": ends}


def _errors_between_fields(
    fields: Mapping[str, object],
    windows: Sequence[WindowForm],
    durations_ms: Mapping[str, int],
    longest_ms: int,
) -> Iterator[str]:
    """Yield the errors of fields that contradict each other."""
    if durations_ms["tie_resolution"] == 0:
        yield "expected tie_resolution to be 1ms or longer, got 0"
    if fields["rank"] == "dense" and fields["shards"] != 1:
        yield (
            f"dense ranks need the distinct scores in one place, but shards is {fields['shards']}: "
            "take shards 1, or rank by competition"
        )
    yield from _decay_errors(windows, fields["columns"])
    scopes, rank_by = fields["scopes"], fields["rank_by"]
    assert isinstance(scopes, tuple)
    assert isinstance(rank_by, tuple)
    if fields["head"]:
        yield from head_errors(windows, fields["rank"], scopes, rank_by)
    yield from ranking_errors(len(windows), len(scopes), len(rank_by))
    yield from _closing_errors(windows, fields)
    if fields["retain"]:
        yield from _retain_errors(fields, longest_ms)
    if durations_ms["dedupe"] < longest_ms:
        longest, got = duration_text(longest_ms), duration_text(durations_ms["dedupe"])
        yield f"expected dedupe to be at least the longest grace, {longest}, got {got}"


def _retain_errors(fields: Mapping[str, object], longest_ms: int) -> Iterator[str]:
    """Yield the reasons why `retain` is invalid together with the other fields."""
    retain = str(fields["retain"])
    if fields.get("ends") == "":
        yield f"retain counts from the end of the board: expected ends with retain {retain}"
    if duration_ms(retain) < longest_ms:
        longest = duration_text(longest_ms)
        yield f"expected retain to be at least the longest grace, {longest}, got {retain}"


def _closing_errors(windows: Sequence[WindowForm], fields: Mapping[str, Any]) -> Iterator[str]:
    """Yield the errors of archives and prizes."""
    for form in windows:
        keep = (form.keep or fields["keep"]) if form.ranks_periods else 1
        if form.archive and form.archive < keep - 1:
            yield (
                f"window {quoted(form.name)}: expected archive to be at least keep without the "
                f"running period, {keep - 1}, got {form.archive}"
            )
        if form.prizes is not None and fields["columns"]:
            specs = [*fields["scopes"]]
            for error in prize_errors(form.prizes, fields["columns"], specs, fields["head"]):
                yield f"window {quoted(form.name)}: {error}"


def _decay_errors(windows: Sequence[WindowForm], columns: object) -> Iterator[str]:
    """Yield the reasons why scores of these columns cannot decay; nothing if no window has
    decay."""
    assert isinstance(columns, tuple)
    decay = next((form for form in windows if form.decays), None)
    if decay is None or not columns:
        return
    if len(columns) > 1:
        yield (
            f"expected 1 column for window {quoted(decay.name)}, which decays, got "
            f"{len(columns)}: define the column that decays on a board of its own"
        )
    elif columns[0].op != "sum":
        yield (
            f"expected op sum for window {quoted(decay.name)}, which decays, got {columns[0].op}: "
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


def _ledger(value: object) -> str:
    if isinstance(value, str) and (not value or is_ledger_name(value)):
        return value
    raise BoardInvalid(
        "expected for ledger a name of up to 32 characters (a to z, 0 to 9 and _) that begins with "
        f"a letter, got {safe_repr(value)}"
    )


def is_ledger_name(value: str) -> bool:
    """Return whether a text may be the name of a ledger. In capitals, the name is the last part of
    the name of the environment variable with the ledger's URL."""
    return _LEDGER_NAME.fullmatch(value) is not None


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


def _hide_zero(value: object) -> bool:
    if isinstance(value, bool):
        return value
    raise BoardInvalid(f"expected true or false for hide_zero, got {safe_repr(value)}")


def _shards(value: object) -> int:
    if (count := integer_within(value, 1, MAX_SHARDS)) is not None:
        return count
    raise BoardInvalid(
        f"expected an integer from 1 to {MAX_SHARDS} for shards, got {safe_repr(value)}"
    )


def _windows(value: object) -> tuple[WindowForm, ...]:
    if not isinstance(value, Sequence) or isinstance(value, (str, bytes)):
        raise BoardInvalid(f"expected a list of windows, got {safe_repr(value)}")
    if not 1 <= len(value) <= MAX_WINDOWS:
        raise BoardInvalid(f"expected 1 to {MAX_WINDOWS} windows, got {len(value)}")
    errors = DefinitionErrors()
    read = [errors.read(parse_window, window, None) for window in value]
    forms = _with_distinct_names([form for form in read if form])
    for name, count in Counter([form.name for form in forms]).items():
        if count > 1:
            errors.add(f"expected distinct window names, got {quoted(name)} {count} times")
    errors.raise_any()
    return tuple(forms)


def _with_distinct_names(forms: Sequence[WindowForm]) -> list[WindowForm]:
    """Return the forms of windows with distinct names.

    Forms that share their short name are named by their whole text, so `day` and
    `day:tz=Asia/Tokyo` stay different.
    """
    names = Counter([form.name for form in forms])
    return [
        form.named_in_full() if form.own_name is None and names[form.name] > 1 else form
        for form in forms
    ]
