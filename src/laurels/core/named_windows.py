"""The window, ranking spec or period that the arguments of a query or write name. Pure."""

from collections.abc import Sequence

from laurels.errors import PeriodExpired, PeriodFuture, UnknownWindow
from laurels.model.labels import label_names
from laurels.model.rules import RankingSpec, Rules
from laurels.model.validation import safe_repr
from laurels.model.windows.kinds import Window
from laurels.model.windows.parsing import is_text_of
from laurels.timeline.calendar import Period

from .closing import WindowClosing


def window_named(rules: Rules, name: str | None) -> Window:
    """Return the window with a name; for None, the board's first window. A window that was given no
    name may be named by its text, with or without the options in it, if only one window has this
    text. Raises UnknownWindow."""
    if name is None:
        return next(iter(rules.windows.values()))
    try:
        return rules.windows[name]
    except (KeyError, TypeError):
        pass
    matches = [window for window in rules.windows.values() if is_text_of(window, name)]
    if len(matches) == 1:
        return matches[0]
    names = ", ".join(rules.windows)
    raise UnknownWindow(
        f"expected a window of the board ({names}), got {safe_repr(name)}"
    ) from None


def spec_named(rules: Rules, window: str | None, scope: Sequence[str] | None) -> RankingSpec:
    """Return the ranking spec of a window and of scopes with the label names `scope`. The defaults
    are the first window and the first of the board's `scopes`."""
    if window is None and scope is None:
        return rules.specs[0]
    labels = rules.scopes[0] if scope is None else label_names(rules, scope)
    return RankingSpec(window_named(rules, window).name, labels)


def readable(
    window: Window,
    floor_ms: int,
    now_ms: int,
    label: str | None,
    closing: WindowClosing | None = None,
) -> Period:
    """Return the period of a window that a query reads: the period with the given label, by default
    the running one. `closing` has the periods that can be read although the window no longer keeps
    them: those that are not sealed yet, and those in the archive."""
    running = window.period_at(now_ms)
    if label is None:
        return running
    period = window.period(label)
    if period.start_ms > running.start_ms:
        raise PeriodFuture(f"{label} has not begun: the running period is {running.label}")
    if closing is not None and closing.has(window.instance_of(period)):
        return period
    if period.end_ms <= (oldest_ms := window.kept_from(floor_ms, now_ms)):
        oldest = window.period_at(oldest_ms).label
        raise PeriodExpired(f"{label} is no longer kept: the oldest kept is {oldest}")
    return period
