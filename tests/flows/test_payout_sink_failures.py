"""Sinks of payouts whose target fails, hangs or refuses: payouts arrive later, or again with the
same id, or are parked."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Any

import pytest

from laurels.errors.sinks import TargetRefused, TargetUnavailable
from laurels.flows.sinks import webhook
from laurels.flows.sinks.opening import DeliveryOptions, open_target
from laurels.flows.sinks.parking import ParkingFile

from .paying import DAY_MS, due_ids, paid, play_day, prized
from .sinking import rows, sent, sink_of
from .test_payout_sinks import ONLY, documents, opened, receiver, run
from .test_webhook import Receiver

__all__ = ["receiver"]


def test_a_receiver_that_fails_delays_payouts(receiver: Receiver) -> None:
    """No payout is lost when the receiver answers 500, or cannot be reached for a week of the
    store's clock."""
    waits: list[float] = []

    async def play() -> None:
        async with opened() as (lb, clock):
            await play_day(lb, clock)
            receiver.answers = [(500, {}), (429, {"Retry-After": "7"}), (503, {})]

            async def sleep(seconds: float) -> None:
                waits.append(seconds)
                clock.advance(DAY_MS)

            sink = await sent(lb, receiver.url, sleep=sleep, now_ms=clock.now_ms, **ONLY)
            assert (len(waits), waits[1] >= 7) == (3, True)
            assert len(receiver.requests) == 4
            assert paid(documents(receiver)) == await due_ids(lb)
            assert sink.metrics.payouts.waiting == 0
            port = receiver.server_address[1]
            receiver.close()
            await play_day(lb, clock)
            seen: list[tuple[int, float]] = []

            async def week(_: float) -> None:
                metrics = sinks[0].metrics
                seen.append((metrics.payouts.waiting, metrics.payouts.lag_seconds(clock.now_ms())))
                clock.advance(DAY_MS)
                if len(seen) == 7:
                    again.append(Receiver(port))

            again: list[Receiver] = []
            url = receiver.url
            sinks = [sink_of(lb, url, sleep=week, now_ms=clock.now_ms, **ONLY)]
            await sinks[0].run()
            with again[0] as back:
                assert [(waiting, int(lag)) for waiting, lag in seen] == [
                    (3, day * DAY_MS // 1_000) for day in range(7)
                ]
                assert paid(documents(receiver) + documents(back)) == await due_ids(lb)

    run(play)


def test_a_receiver_that_hangs_delays_payouts(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first receiver accepts the connection and never answers."""
    monkeypatch.setattr(webhook, "ANSWER_SECONDS", 0.2)

    async def play() -> None:
        async with opened() as (lb, clock):
            await play_day(lb, clock)
            with socket.create_server(("127.0.0.1", 0)) as silent:
                port = silent.getsockname()[1]
                answering: list[Receiver] = []

                async def sleep(_: float) -> None:
                    if not answering:
                        silent.close()
                        monkeypatch.undo()
                        answering.append(Receiver(port))

                await sent(lb, f"http://127.0.0.1:{port}/", sleep=sleep, **ONLY)
            with answering[0] as receiver:
                assert paid(documents(receiver)) == await due_ids(lb)

    run(play)


def test_a_payout_arrives_again_after_a_lost_answer_with_the_same_id(receiver: Receiver) -> None:
    """The receiver stores the page, but its answer is lost, as after a time-out or a kill."""

    class Forgetful:
        """A target whose first delivery arrives, but seems to have failed."""

        def __init__(self, target: Any) -> None:
            self._target = target
            self._failed = False

        def __getattr__(self, name: str) -> Any:
            return getattr(self._target, name)

        async def deliver(self, page: Any) -> None:
            await self._target.deliver(page)
            if not self._failed:
                self._failed = True
                raise TargetUnavailable("the answer was lost")

    async def play() -> None:
        async with opened() as (lb, clock):
            await play_day(lb, clock)
            sink = sink_of(lb, receiver.url, **ONLY)
            sink.target = sink._context.target = Forgetful(sink.target)
            await sink.run()
            assert len(documents(receiver)) == 6
            assert paid(documents(receiver)) == await due_ids(lb)

    run(play)


def test_a_refused_payout_is_parked_and_can_be_sent_again(
    receiver: Receiver, tmp_path: Path
) -> None:
    async def play() -> None:
        async with opened() as (lb, clock):
            await play_day(lb, clock)
            parking = ParkingFile(tmp_path / "parked", "sink")
            # refuses the page three times, then its first half once
            receiver.answers = [(400, {})] * 4
            sink = await sent(lb, receiver.url, parking=parking, tries=3, **ONLY)
            assert (sink.metrics.payouts.parked, sink.metrics.payouts.delivered) == (1, 2)
            ids = await due_ids(lb)
            assert paid(documents(receiver)) == ids[1:]
            [page] = parking.read()
            assert [each.id for each in page.changes] == ids[:1]
            await play_day(lb, clock)
            receiver.answers = [(400, {})] * 100
            sink = await sent(lb, receiver.url, parking=parking, tries=3, **ONLY)
            assert (sink.metrics.payouts.parked, sink.metrics.payouts.delivered) == (3, 0)
            assert len(receiver.answers) == 100 - 3 - 4
            receiver.answers = []
            parked = [each.id for page in parking.read() for each in page.changes]
            assert parked == [ids[0], *(await due_ids(lb))[3:]]
            target = open_target(
                receiver.url, "sink", DeliveryOptions(allows_private=True), lb, clock.now_ms
            )
            await target.open()
            assert await parking.resend(target) == 4
            await target.close()
            assert sorted(paid(documents(receiver))) == sorted(await due_ids(lb))
            assert b'"amount":5.00' in b"".join([body for _, body in receiver.requests[-4:]])

    run(play)


def test_a_target_that_refuses_payouts_does_not_stop_changes(tmp_path: Path) -> None:
    """The target is a ledger that stores positions in the changes of a board, but refuses to store
    the position in the list of due payouts."""
    ledger = f"sqlite:///{tmp_path}/ledger.db"

    async def play() -> None:
        async with opened(prized(changes="7d")) as (lb, clock):
            await sent(lb, ledger)
            await play_day(lb, clock)
            for event in ("INSERT", "UPDATE"):
                rows(
                    ledger,
                    f"CREATE TRIGGER no_{event} BEFORE {event} ON laurels_sinks "
                    "WHEN NEW.board <> 'b' BEGIN SELECT RAISE(ABORT, 'no payouts'); END",
                )
            sink = sink_of(lb, ledger)
            await sink.run()
            assert isinstance(sink.payouts_error, TargetRefused)
            assert sink.metrics.delivered > 0
            for event in ("INSERT", "UPDATE"):
                rows(ledger, f"DROP TRIGGER no_{event}")
            await sent(lb, ledger)
            assert len(rows(ledger, "SELECT id FROM laurels_payouts")) == 3

    run(play)
