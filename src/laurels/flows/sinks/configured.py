"""Sinks that a server runs, defined in its settings."""

import asyncio
from collections.abc import Callable, Mapping
from pathlib import Path

from msgspec import Struct

from laurels.api.aio import AsyncLeaderboards
from laurels.flows.retries import Sleep

from .metrics import SinkMetrics
from .opening import DeliveryOptions, open_target, webhook_secret, what_to_send
from .options import SinkOptions, What
from .parking import ParkingFile
from .runner import SinkRunner

RESTART_SECONDS = 30.0
"""The delay after which a sink that has ended is started again."""


class SinkSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The settings of one sink, `[sinks.NAME]` of the settings file; see `laurels sink run`."""

    to: str
    boards: list[str] | None = None
    what: What | None = None
    fields: str | None = None
    payout_fields: str | None = None
    secret: str | None = None
    secret_file: str | None = None
    allow_private: bool = False
    authorities: str | None = None
    initial: bool = False
    tries: int = 5
    parked: str | None = None


class BackgroundSinks:
    """Runs sinks in the process of a service. If a sink ends with an error, the error is reported
    and the sink is started again."""

    def __init__(
        self,
        settings: Mapping[str, SinkSettings],
        lb: AsyncLeaderboards,
        now_ms: Callable[[], int],
        report: Callable[[str, str | Exception], None],
        sleep: Sleep = asyncio.sleep,
    ) -> None:
        self._settings = settings
        self._lb = lb
        self._now_ms = now_ms
        self._report = report
        self._sleep = sleep
        self.metrics: dict[str, SinkMetrics] = {}
        for name in settings:
            self._runner(name)

    async def run(self) -> None:
        """Run all sinks until cancelled."""
        await asyncio.gather(*[self._run_repeatedly(name) for name in self._settings])

    async def _run_repeatedly(self, name: str) -> None:
        metrics = SinkMetrics({})
        while True:
            last_wait = metrics.wait
            try:
                runner = self._runner(name)
                metrics = self.metrics[name] = runner.metrics
                metrics.wait = last_wait
                await runner.run()
            except Exception as error:  # the other sinks and the service go on
                self._report(name, error)
                if not metrics.delivered and not metrics.payouts.delivered:
                    # nothing was sent since the last failure: keep the time of the first failure
                    metrics.wait = last_wait
                metrics.fail(error, self._now_ms(), RESTART_SECONDS)
            await self._sleep(RESTART_SECONDS)

    def _runner(self, name: str) -> SinkRunner:
        """Return a new runner of a sink, not running yet. Raises InvalidTarget, MissingDriver."""
        each = self._settings[name]
        file = None if each.secret_file is None else Path(each.secret_file)
        secret = webhook_secret(each.secret, file)
        delivery = DeliveryOptions(
            each.fields, each.payout_fields, secret, each.allow_private, each.authorities
        )
        what = what_to_send(each.what, delivery)
        path = Path(each.parked or f"{name}.parked.jsonl")
        return SinkRunner(
            self._lb,
            open_target(each.to, name, delivery, self._lb, self._now_ms),
            SinkOptions(name, each.boards, each.initial, tries=each.tries, what=what),
            now_ms=self._now_ms,
            parking=ParkingFile(path, name),
            report=lambda text: self._report(name, text),
            sleep=self._sleep,
        )
