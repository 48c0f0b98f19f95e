"""Changes of a definition that do not alter the meaning of counted events."""

from collections.abc import Mapping
from typing import Any

from msgspec.structs import asdict, replace

from laurels.errors import UnsafeChange
from laurels.model.validation import quoted
from laurels.model.windows.forms import WindowForm
from laurels.model.windows.parsing import parse_window

from .board import Board
from .board_times import instant_text


def safe_change(old: Board, changes: Mapping[str, Any]) -> Board:
    """Return the board with these fields changed, if the meaning of what was counted stays the
    same.

    Title, `labels`, `changes`, `changes_max`, `head`, `hide_zero`, `close_wait`, `starts`, `ends`,
    `retain`, `max_age`, `ledger` may change, and so may `keep` (of the board or of a window),
    `archive`, `archive_every` and `prizes` (of a window). Windows, scopes and labels to rank by may
    be added at the end; they count only the events after the change. A field with its current value
    is not a change. Raise UnsafeChange with every reason, or BoardInvalid with every fault.
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


def ensure_end_to_come(old: Board, new: Board, now_ms: int) -> None:
    """Raise UnsafeChange for a new end of a board if the new end has already passed, so that events
    counted after it would have to be removed, or if the board was closed at its present end. Also
    raise it if a new `ends` or `retain` would let the board be removed at once."""
    ends_ms = new.rules().ends_ms
    if new.ends != old.ends and ends_ms <= now_ms:
        raise UnsafeChange(
            f"expected ends to be later than now, {instant_text(now_ms)}, got {new.ends}"
        )
    rules = old.rules()
    if new.ends != old.ends and rules.closing and now_ms > rules.ends_ms + rules.grace_ms:
        raise UnsafeChange(f"ends cannot change: the board was closed at its end, {old.ends}")
    changed = (new.ends, new.retain) != (old.ends, old.retain)
    if changed and new.rules().is_gone(now_ms):
        raise UnsafeChange(
            f"the board would be removed at once: {new.retain} after {new.ends} is before now, "
            f"{instant_text(now_ms)}; delete it instead"
        )


def named_as(new: Board, old: Board) -> Board:
    """Return the definition with its windows named as in an older definition of the same board.
    This is needed because earlier versions named a window without a name of its own by its whole
    text."""
    names = {parse_window(text).name for text in old.windows}

    def named(form: WindowForm) -> WindowForm:
        if form.own_name is None and form.name not in names and form.full_name in names:
            return form.named_in_full()
        return form

    windows = tuple([named(parse_window(text)).text for text in new.windows])
    return new if windows == new.windows else replace(new, windows=windows)


_STAYS = {
    "name": "the name of a board cannot change",
    "columns": "columns cannot change: scores were counted by them",
    "tie": "tie cannot change: the rankings are ordered by it",
    "tie_resolution": "tie_resolution cannot change: the rankings are ordered by it",
    "rank": "rank cannot change: the same score would have another rank",
    "tz": "tz cannot change: the boundaries of its periods would move",
    "week_start": "week_start cannot change: the boundaries of its weeks would move",
    "grace": "grace cannot change: events were accepted or refused by it",
    "dedupe": "dedupe cannot change: ids are remembered for that long",
    "shards": "shards cannot change: members are stored by shard",
    "dedupe_max": "dedupe_max cannot change: events were accepted or refused by it",
}


def _unsafe_windows(old: Board, new: Board) -> list[str]:
    """Return the reasons why the windows of `old` cannot be changed to those of `new`; empty if
    they can.
    """
    before = [parse_window(text) for text in old.windows]
    after = {form.name: form for form in map(parse_window, new.windows)}
    reasons = []
    for form in before:
        if form.name not in after:
            reasons.append(f"window {quoted(form.name)} cannot go: what it counted would be lost")
        elif _with_safe_options(after[form.name], form) != form:
            what = ", ".join(form.safe_options)
            what = f"nothing but {what}" if what else "nothing"
            reasons.append(f"window {quoted(form.name)} can change in {what}")
    if not reasons and list(after)[: len(before)] != [form.name for form in before]:
        reasons.append("windows stay in their order, new ones come at the end")
    return reasons


def _with_safe_options(form: WindowForm, old: WindowForm) -> WindowForm:
    """Return the form of a window with its name, and every option that may change, as in `old`. Two
    forms of a window differ only in such options if the result equals `old`."""
    return replace(
        form,
        keep=old.keep,
        own_name=old.own_name,
        archive=old.archive,
        archive_every_ms=old.archive_every_ms,
        prizes=old.prizes,
    )
