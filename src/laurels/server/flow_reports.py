"""The state of the sinks and sources of a service, the same in each of its workers.

The first worker runs them. It stores their state in a file once a second; the other workers read
it.
"""

import asyncio
from collections.abc import Callable, Mapping
from pathlib import Path

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from laurels.flows.sinks.metrics import SinkMetrics
from laurels.flows.sources.metrics import SourceMetrics
from laurels.wire.flow_wait import FlowWait
from laurels.wire.redaction import without_paths
from laurels.wire.sinks import SinkReport
from laurels.wire.sources import SourceReport

REPORT_SECONDS = 1.0
STALE_SECONDS = 5.0
"""The age, in seconds, from which on a stored state is no longer shown: the first worker has then
stopped writing it."""


class FlowReports(Struct, frozen=True):
    """The state of all sinks and sources of the settings."""

    sinks: list[SinkReport] = []
    sources: list[SourceReport] = []


class RunningFlows:
    """The sinks and sources that this process runs."""

    def __init__(self, now_ms: Callable[[], int]) -> None:
        self._now_ms = now_ms
        self.sinks: Mapping[str, SinkMetrics] = {}
        self.sources: Mapping[str, SourceMetrics] = {}

    def reports(self) -> FlowReports:
        """Return the state of all sinks and sources. Error messages show files without their
        folders."""
        now_ms = self._now_ms()
        sinks = [metrics.report(name, now_ms) for name, metrics in self.sinks.items()]
        sources = [metrics.report(name, now_ms) for name, metrics in self.sources.items()]
        return FlowReports(
            [
                replace(
                    each,
                    wait=_without_paths(each.wait),
                    boards={board: _hide_paths(wait) for board, wait in each.boards.items()},
                )
                for each in sinks
            ],
            [replace(each, wait=_without_paths(each.wait)) for each in sources],
        )


class ReportFile:
    """The file with the state of the flows, which the first worker writes."""

    def __init__(self, path: Path, elapsed: Callable[[], float]) -> None:
        """`elapsed` returns the seconds since boot, which all processes of a machine share."""
        self._path = path
        self._elapsed = elapsed

    async def go_on(self, reports: Callable[[], FlowReports], warn: Callable[[str], None]) -> None:
        """Write the state once a second until cancelled; warn once if that fails."""
        has_failed = False
        while True:
            try:
                await asyncio.to_thread(self._write, _Stored(self._elapsed(), reports()))
            except OSError as error:
                if not has_failed:
                    warn(f"the state of sinks and sources cannot be stored for workers: {error}")
                has_failed = True
            await asyncio.sleep(REPORT_SECONDS)

    def read(self, absent: FlowReports) -> FlowReports:
        """Return the state; `absent` if there is none, or only an old one."""
        try:
            stored = _decoder.decode(self._path.read_bytes())
        except (OSError, msgspec.MsgspecError):
            return absent
        is_stale = self._elapsed() - stored.written > STALE_SECONDS
        return absent if is_stale else stored.reports

    def _write(self, stored: "_Stored") -> None:
        beside = self._path.with_suffix(".new")
        beside.write_bytes(msgspec.json.encode(stored))
        beside.replace(self._path)


class _Stored(Struct, frozen=True):
    """The state, and the time at which it was written, in seconds since boot. All processes of a
    machine share this clock."""

    written: float
    reports: FlowReports


_decoder = msgspec.json.Decoder(_Stored)


def _without_paths(wait: FlowWait | None) -> FlowWait | None:
    return None if wait is None else _hide_paths(wait)


def _hide_paths(wait: FlowWait) -> FlowWait:
    return replace(wait, error=without_paths(wait.error))
