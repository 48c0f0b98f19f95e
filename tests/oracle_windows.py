"""The windows of the oracle, by their definitions."""

from __future__ import annotations

from dataclasses import replace

from tests.definitions import Counted, Definition, WindowDef, duration_ms
from tests.oracle_calendar import CalendarWindow
from tests.oracle_rolling import RefreshedWindow, RollingWindow
from tests.oracle_window import OracleWindow


def window_of(window: WindowDef, board: Definition) -> OracleWindow:
    """Return the window that a definition describes."""
    if window.unit == "all":
        return OracleWindow(window, board)
    if window.unit == "decay":
        return DecayWindow(window, board)
    kind = RollingWindow if window.unit == "rolling" else CalendarWindow
    if window.refresh is not None:
        kind = RefreshedWindow
    return kind(window, board)


class DecayWindow(OracleWindow):
    """A window that counts all events, and whose scores lose half of their value with every
    half-life."""

    def __init__(self, window: WindowDef, board: Definition) -> None:
        super().__init__(window, board)
        self.half_life_ms = duration_ms(window.half_life)

    def seen(self, event: Counted, now_ms: int) -> Counted:
        as_of_ms = now_ms if self.ends_ms is None else min(now_ms, self.ends_ms)
        return replace(event, decay=(self.half_life_ms, as_of_ms))

    def events(self, label: str | None, now_ms: int) -> list[Counted]:
        return [self.seen(event, now_ms) for event in super().events(label, now_ms)]
