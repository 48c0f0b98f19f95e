"""The reason why a sink sends nothing: its last error, the time of its first failure, and the time
of its next attempt."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest

import laurels
from laurels.cli import main
from laurels.errors.sinks import TargetRefused, TargetUnavailable
from laurels.flows.sinks.configured import RESTART_SECONDS, BackgroundSinks, SinkSettings
from laurels.flows.sinks.options import SinkOptions
from laurels.flows.sinks.parking import ParkingFile
from laurels.flows.sinks.runner import SinkRunner
from laurels.flows.sinks.target import SinkPage
from laurels.wire.flow_wait import FlowWait
from tests.redis.servers import free_port, until
from tests.serving import ADMIN_KEY, Served

from .sinking import NOW_MS
from .test_served_sinks import ADMIN, sample

UNAVAILABLE = str(TargetUnavailable("it is down"))
REFUSED = str(TargetRefused("it says no"))


class Failing:
    """A target that raises some errors before it accepts a page."""

    keeps_positions = False
    holds_state = False
    limit = 10

    def __init__(self, *errors: Exception) -> None:
        self.errors = list(errors)

    async def open(self) -> None: ...

    async def position(self, board: str) -> str | None:
        return None

    async def deliver(self, page: SinkPage) -> None:
        if self.errors:
            raise self.errors.pop(0)

    async def reset(self, board: str, position: str | None) -> None: ...

    async def close(self) -> None: ...


def test_the_reason_has_the_first_failure_and_the_next_attempt(tmp_path: Path) -> None:
    """Time passes only while the sink waits."""
    now_ms, waits = NOW_MS, list[tuple[FlowWait | None, float]]()
    runners: list[SinkRunner] = []

    async def sleep(seconds: float) -> None:
        nonlocal now_ms
        if seconds != 0.05:  # the sink's sleep between two polls
            metrics = runners[0].metrics
            waits.append((metrics.of("b").wait, metrics.failing_seconds(now_ms)))
            now_ms += int(seconds * 1_000)
        await asyncio.sleep(0)

    async def play() -> None:
        async with laurels.open_async("memory:", clock=laurels.ManualClock(NOW_MS)) as lb:
            await lb.create(laurels.Board("b", changes="7d"))
            runners.append(sink_over(lb))
            await runners[0].run()

    def sink_over(lb: laurels.AsyncLeaderboards) -> SinkRunner:
        down, no = TargetUnavailable("it is down", 2.0), TargetRefused("it says no")
        return SinkRunner(
            lb,
            Failing(down, down, no, down),
            SinkOptions("s", until_end=True),
            now_ms=lambda: now_ms,
            parking=ParkingFile(tmp_path / "parked"),
            sleep=sleep,
        )

    asyncio.run(play())
    assert len(waits) == 4
    for attempt, (wait, _) in enumerate(waits):
        assert wait is not None
        text = REFUSED if attempt == 2 else UNAVAILABLE
        assert (wait.error, wait.since_ms, wait.attempts) == (text, NOW_MS, attempt + 1)
        assert wait.code == ("target_refused" if attempt == 2 else "target_unavailable")
    times = [wait.next_ms for wait, _ in waits if wait is not None]
    assert times[:2] == [NOW_MS + 2_000, NOW_MS + 4_000]
    assert waits[1][1] == 2.0, "it has failed for two seconds"
    assert runners[0].metrics.reason is None
    assert runners[0].metrics.failing_seconds(now_ms) == 0.0


def test_repeated_failures_are_dated_from_the_first_one(tmp_path: Path) -> None:
    now_ms, waits = NOW_MS, list[FlowWait | None]()

    async def sleep(seconds: float) -> None:
        nonlocal now_ms
        waits.append(sinks.metrics["s"].reason)
        now_ms += int(seconds * 1_000)
        if len(waits) == 3:
            raise asyncio.CancelledError

    settings = {"s": SinkSettings(to=str(tmp_path / "missing" / "changes.jsonl"))}
    sinks: Any = None

    async def play() -> None:
        nonlocal sinks
        async with laurels.open_async("memory:") as lb:
            sinks = BackgroundSinks(settings, lb, lambda: now_ms, lambda *_: None, sleep)
            with pytest.raises(asyncio.CancelledError):
                await sinks.run()

    asyncio.run(play())
    for i, wait in enumerate(waits):
        assert wait is not None
        assert (wait.code, wait.since_ms, wait.attempts) == ("invalid_target", NOW_MS, i + 1)
        assert wait.next_ms == NOW_MS + (i + 1) * RESTART_SECONDS * 1_000
    report = sinks.metrics["s"].report("s", now_ms)
    assert report.wait == waits[-1]
    assert report.boards == {}


def test_a_service_reports_why_a_sink_waits(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LAURELS_KEY", ADMIN_KEY)
    port = free_port()
    sinks = {
        "feed": SinkSettings(to=f"redis://127.0.0.1:{port}/0/changes"),
        "lines": SinkSettings(to=str(tmp_path / "changes.jsonl")),
    }
    with Served(tmp_path / "boards", admin_key=ADMIN_KEY, sinks=sinks) as server:

        def reports() -> dict[str, Any]:
            answer = httpx.get(f"{server.url}/v1/sinks", headers=ADMIN).raise_for_status()
            return {each["name"]: each for each in answer.json()}

        with laurels.open(server.url.replace("//", f"//{ADMIN_KEY}@")) as lb:
            lb.create(laurels.Board("b", changes="7d"))
            lb.submit("b", "ann", 1)
        until(lambda: reports()["lines"]["delivered"] == 2, "the other sink sends")
        until(lambda: (reports()["feed"]["wait"] or {}).get("attempts", 0) > 1, "it tries again")
        wait = reports()["feed"]["wait"]
        assert wait["code"] == "target_unavailable"
        assert str(port) in wait["error"]
        assert wait["since_ms"] < wait["next_ms"]
        assert reports()["lines"]["wait"] is None
        failing = sample(server.url, "laurels_sink_failing_seconds{", ADMIN)
        assert [line.endswith(" 0.0") for line in failing] == [False, True]

        capsys.readouterr()
        assert main(["sink", "status", "feed", "--at", server.url]) == 0
        output = " ".join(capsys.readouterr().err.split())
        assert "b: feed has sent nothing since 20" in output
        assert "next attempt in" in output
        assert "[target_unavailable]" in output
        assert main(["sink", "status", "feed", "--at", server.url, "--json"]) == 0
        (status,) = msgspec.json.decode(capsys.readouterr().out)
        assert status["wait"]["code"] == "target_unavailable"
        assert main(["sink", "status", "lines", "--at", server.url]) == 0
        assert "sent nothing" not in capsys.readouterr().err

        key = {"name": "some", "scope": "read", "boards": ["b"]}
        made = httpx.post(f"{server.url}/v1/keys", json=key, headers=ADMIN).raise_for_status()
        secret = {"authorization": f"Bearer {made.json()['key']}"}
        assert httpx.get(f"{server.url}/v1/sinks", headers=secret).status_code == 403


def test_status_tries_to_reach_the_given_target(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    at, to = str(tmp_path / "boards"), f"redis://127.0.0.1:{free_port()}/0/changes"
    with laurels.open(at) as lb:
        lb.create(laurels.Board("b", changes="7d"))
        lb.submit_many("b", [], position=("sink:s", lb.changes("b", limit=1).cursor))
        lb.submit("b", "ann", 1)
    assert main(["sink", "status", "s", "--at", at, "--to", to]) == 2
    out, err = capsys.readouterr()
    assert "waiting" in out, "the reason that the store has recorded"
    assert "target_unavailable" in err
