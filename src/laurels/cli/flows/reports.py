"""The reports of a service about the sinks and sources that it runs."""

from collections.abc import Callable
from contextlib import closing
from datetime import UTC, datetime
from typing import TypeVar

from laurels import config
from laurels.cli.show import complain
from laurels.errors.service import Forbidden, NoSuchPath
from laurels.stores.http.call import Call
from laurels.wire.flow_wait import FlowWait
from laurels.wire.sinks import SinkReport
from laurels.wire.sources import SourceReport

Report = TypeVar("Report", SinkReport, SourceReport)


def report_of(at: str, call: Callable[[], Call[list[Report]]], name: str) -> Report | None:
    """Return the state of a sink or source, as reported by the service at a URL. Return None if the
    URL does not name a service, if the service does not run the flow or is too old, or if the key
    lacks the permission."""
    if not config.is_remote(at):
        return None
    with closing(config.remote_wire(at)) as wire:
        try:
            reports = wire.answer(call())
        # the key is limited to some boards, or the service is of an earlier version
        except (Forbidden, NoSuchPath):
            return None
    report = next((each for each in reports if each.name == name), None)
    if report is not None and report.elsewhere:
        complain(f"the service process that runs {name} has not reported yet: try again")
    return report


def wait_text(wait: FlowWait, now_ms: int) -> str:
    """Return a text about a flow whose attempts fail: since when, how many attempts there were,
    when the next one follows, and the error."""
    since = datetime.fromtimestamp(wait.since_ms / 1_000, UTC).isoformat(timespec="seconds")
    retry = "no automatic retry"
    if wait.next_ms is not None:
        retry = f"next attempt in {max(0, wait.next_ms - now_ms) / 1_000:.0f} s"
    error = " ".join(wait.error.split())
    return f"since {since} ({wait.attempts:,} attempts, {retry}) [{wait.code}]: {error}"
