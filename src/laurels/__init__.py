"""laurels: exact, live, durable leaderboards.

import laurels

with laurels.open("./boards") as lb:
    lb.create(laurels.Board("gifts", windows=["all", "day"]))
    lb.submit("gifts", "alice", 120)
    lb.top("gifts", window="day")
"""

import asyncio
from collections.abc import Generator
from os import PathLike
from types import TracebackType
from typing import Any

from laurels.api.aio import AsyncLeaderboards
from laurels.api.leaderboards import Leaderboards
from laurels.core.archived import SealedInfo, VerifiedPeriod
from laurels.core.erasing import Erasure, Remaining
from laurels.core.hiding import HiddenMember
from laurels.core.hot_report import HotBoard, HotMember, HotReport
from laurels.core.payouts import Payout, PayoutPage, Revision
from laurels.core.rank import Estimate
from laurels.core.receipt import Receipt, Receipts
from laurels.core.removed_boards import RestorableBoard
from laurels.core.settling import Award, Settlement
from laurels.core.standing import AsOf, Entry, Gap, Needed, Neighbour, Page, PeriodInfo, Standing
from laurels.core.stats import (
    BoardLayout,
    BoardStats,
    CheckReport,
    Kept,
    Sealed,
    Stats,
    WindowStats,
)
from laurels.model.board import Board, Column
from laurels.model.event import Event
from laurels.timeline.clock import Clock, EventClock, ManualClock, SystemClock
from laurels.wire.audit_entry import AuditEntry
from laurels.wire.audit_page import AuditPage

from . import config, errors
from .errors import LaurelsError

__all__ = [
    "AsOf",
    "AsyncLeaderboards",
    "AuditEntry",
    "AuditPage",
    "Award",
    "Board",
    "BoardLayout",
    "BoardStats",
    "CheckReport",
    "Clock",
    "Column",
    "Entry",
    "Erasure",
    "Estimate",
    "Event",
    "EventClock",
    "Gap",
    "HiddenMember",
    "HotBoard",
    "HotMember",
    "HotReport",
    "Kept",
    "LaurelsError",
    "Leaderboards",
    "ManualClock",
    "Needed",
    "Neighbour",
    "Page",
    "Payout",
    "PayoutPage",
    "PeriodInfo",
    "Receipt",
    "Receipts",
    "Remaining",
    "RestorableBoard",
    "Revision",
    "Sealed",
    "SealedInfo",
    "Settlement",
    "Standing",
    "Stats",
    "SystemClock",
    "VerifiedPeriod",
    "WindowStats",
    "errors",
    "open",
    "open_async",
]
__version__ = "0.1.0"


def open(
    url: str | PathLike[str] = config.DEFAULT_URL,
    *,
    clock: str | Clock | None = None,
    create: bool = True,
    log_keep: bool | None = None,
    max_clock_step: str | int | None = None,
) -> Leaderboards:
    """Open a deployment: a folder (created if it does not exist), `memory:`, a server at
    `http://…`, or the boards on a Redis or Valkey server, `redis://host:port/database`
    (`rediss://` with TLS, `redis+cluster://` for a cluster). The key for a server is the user in
    its URL, or else the value of `LAURELS_KEY`.

    `clock` is "system", a Clock, or "event", with which the current time is the latest `at` of any
    event, for imports and replays. By default a folder is opened with the kind of clock with which
    it was last written, and a new folder with "system". With `create=False` a folder without boards
    is an error. Recovery reads the newest snapshot and the log after it. With `log_keep=True` the
    folder keeps its whole log from now on, as an audit trail; with False, snapshots trim it again.
    By default this setting is unchanged; a new folder trims its log. If the system's clock leaps by
    more than `max_clock_step` ("1h" by default), the boards follow the leap only after it has
    lasted for ten minutes, or when `accept_clock` is called.

    Raises UnknownUrl, Locked, FolderMissing, StorageFailed, LogDamaged, FormatTooNew.

    A server has its own clock and log, so `clock` and `log_keep` are refused as InvalidClock.
    Nothing is sent before the first verb. Raises MissingClient without the extra `client` (in a
    checkout: `pip install '.[client]'`).

    Any number of processes may open the boards on an index server. The first of them also stores
    the clock of the boards there; with `create=False` nothing is stored. An index server keeps no
    log, so `log_keep` is refused as InvalidClock. Raises IndexUnavailable, IndexDenied,
    WrongServer, IndexTooOld, and MissingRedis without the extra `redis`. The warning
    `errors.DataAtRisk` names settings of the server by which counted events may be lost.
    """
    if isinstance(url, str) and config.is_remote(url):
        return config.remote(url, clock, log_keep, max_clock_step)
    if isinstance(url, str) and config.is_direct(url):
        return config.direct(
            url, clock, create=create, log_keep=log_keep, max_clock_step=max_clock_step
        )
    return config.recorded_verbs(
        config.connect(url, clock, create=create, log_keep=log_keep, max_clock_step=max_clock_step)
    )


class _Opening:
    """The result of `open_async`, which can be awaited or entered with `async with`."""

    def __init__(
        self,
        url: str | PathLike[str],
        clock: str | Clock | None,
        create: bool,
        log_keep: bool | None,
        max_clock_step: str | int | None,
    ) -> None:
        self._arguments = url, clock, create, log_keep, max_clock_step
        self._opened: AsyncLeaderboards | None = None

    async def _open(self) -> AsyncLeaderboards:
        url, clock, create, log_keep, max_clock_step = self._arguments
        if isinstance(url, str) and config.is_remote(url):
            return config.remote_async(url, clock, log_keep, max_clock_step)
        if isinstance(url, str) and config.is_direct(url):
            return await config.direct_async(
                url, clock, create=create, log_keep=log_keep, max_clock_step=max_clock_step
            )
        service = await asyncio.to_thread(
            config.connect,
            url,
            clock,
            create=create,
            log_keep=log_keep,
            max_clock_step=max_clock_step,
        )
        return config.recorded_verbs_async(service)

    def __await__(self) -> Generator[Any, None, AsyncLeaderboards]:
        return self._open().__await__()

    async def __aenter__(self) -> AsyncLeaderboards:
        self._opened = await self._open()
        return self._opened

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._opened is not None:
            await self._opened.close()


def open_async(
    url: str | PathLike[str] = config.DEFAULT_URL,
    *,
    clock: str | Clock | None = None,
    create: bool = True,
    log_keep: bool | None = None,
    max_clock_step: str | int | None = None,
) -> _Opening:
    """Open a deployment for event loops: `async with laurels.open_async(url) as lb`, or `await
    laurels.open_async(url)`. Arguments and errors are those of `open`."""
    return _Opening(url, clock, create, log_keep, max_clock_step)
