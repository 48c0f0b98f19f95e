"""Why a source counts nothing, and what the workers of a service know of its sinks and sources."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest
import structlog

import laurels
from laurels.cli import main
from laurels.errors.sources import SourceUnavailable
from laurels.flows.sinks.configured import BackgroundSinks, SinkSettings
from laurels.flows.sources.configured import BackgroundSources, ConfiguredSource
from laurels.flows.sources.reader import Message, StreamPosition
from laurels.flows.sources.rejects import NoRejects
from laurels.flows.sources.runner import SourceRunner
from laurels.flows.sources.settings import SourceSettings
from laurels.flows.sources.template import parse_mapping
from laurels.server.flow_reports import STALE_SECONDS, FlowReports, ReportFile
from laurels.server.process.serving import log_flow
from laurels.wire.flow_wait import FlowWait
from laurels.wire.sinks import SinkReport
from laurels.wire.sources import SourceReport
from tests.flows.sourcing import FOUR_FIELDS, RecordingReader, four_fields, reader_of
from tests.http.process import Process
from tests.redis.servers import Server, until
from tests.serving import ADMIN_KEY, Served

from .sinking import NOW_MS
from .test_served_sinks import ADMIN, sample


def reports(url: str, kind: str) -> dict[str, Any]:
    """Return what a service reports of its sinks or sources, by name."""
    answer = httpx.get(f"{url}/v1/{kind}", headers=ADMIN).raise_for_status()
    return {each["name"]: each for each in answer.json()}


class FailingReader(RecordingReader):
    """A reader of a file whose first reads fail."""

    failures = 3

    async def read(self, after: StreamPosition, limit: int, *, wait: bool) -> Sequence[Message]:
        if self.failures:
            self.failures -= 1
            raise SourceUnavailable("it is down")
        return await super().read(after, limit, wait=wait)


def test_the_reported_wait_has_the_first_failure_and_ends_with_a_batch(tmp_path: Path) -> None:
    """Time passes only while the source waits."""
    events = tmp_path / "events"
    events.write_bytes(four_fields("b", "ann", 5) + b"\n")
    now_ms, waits = NOW_MS, list[FlowWait | None]()
    seconds_failed: list[float] = []
    runner: Any = None

    async def sleep(seconds: float) -> None:
        nonlocal now_ms
        waits.append(runner.metrics.wait)
        seconds_failed.append(runner.metrics.report("s", now_ms).failing_seconds)
        now_ms += int(seconds * 1_000)
        await asyncio.sleep(0)

    async def play() -> None:
        nonlocal runner
        async with laurels.open_async("memory:", clock=laurels.ManualClock(NOW_MS)) as lb:
            await lb.create(laurels.Board("b"))
            runner = SourceRunner(
                lb,
                FailingReader(reader_of(events)),
                parse_mapping(FOUR_FIELDS),
                SourceSettings("s", until_end=True),
                rejects=NoRejects(),
                sleep=sleep,
                now_ms=lambda: now_ms,
            )
            await runner.run()
            assert (await lb.rank("b", "ann")) == 1

    asyncio.run(play())
    assert len(waits) == 3
    for attempt, wait in enumerate(waits):
        assert wait is not None
        assert (wait.code, wait.since_ms, wait.attempts) == (
            "source_unavailable",
            NOW_MS,
            attempt + 1,
        )
        assert wait.next_ms is not None
        assert wait.next_ms > NOW_MS
    assert seconds_failed[0] == 0.0
    assert seconds_failed[2] > seconds_failed[1] > 0.0
    report = runner.metrics.report("s", now_ms)
    assert (report.wait, report.failing_seconds, report.applied) == (None, 0.0, 1)


def test_a_service_reports_why_a_source_waits(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LAURELS_KEY", ADMIN_KEY)
    with laurels.open(tmp_path / "boards") as lb:
        lb.create(laurels.Board("b"))
    with Server() as redis:
        stream = f"redis://app:secret@127.0.0.1:{redis.port}/0/events"
        redis.call("ACL", "SETUSER", "app", "on", ">secret", "~*", "+@all")
        redis.call("XADD", "events", "*", "event", four_fields("b", "ann", 5))
        redis.stop()
        sources = {"feed": ConfiguredSource(from_=stream, map=FOUR_FIELDS)}
        with Served(tmp_path / "boards", admin_key=ADMIN_KEY, sources=sources) as server:
            until(
                lambda: (
                    (reports(server.url, "sources")["feed"]["wait"] or {}).get("attempts", 0) > 1
                ),
                "it tries again",
            )
            wait = reports(server.url, "sources")["feed"]["wait"]
            assert wait["code"] == "source_unavailable"
            assert str(redis.port) in wait["error"]
            assert "secret" not in wait["error"]
            (failing,) = sample(server.url, "laurels_source_failing_seconds{", ADMIN)
            assert not failing.endswith(" 0.0")

            capsys.readouterr()
            assert main(["source", "status", "feed", "--at", server.url]) == 0
            printed = " ".join(capsys.readouterr().err.split())
            assert "feed has counted nothing since 20" in printed
            assert "[source_unavailable]" in printed
            assert main(["source", "status", "feed", "--at", server.url, "--json"]) == 0
            status = msgspec.json.decode(capsys.readouterr().out)
            assert status["wait"]["code"] == "source_unavailable"

            key = {"name": "some", "scope": "read", "boards": ["b"]}
            made = httpx.post(f"{server.url}/v1/keys", json=key, headers=ADMIN).raise_for_status()
            secret = {"authorization": f"Bearer {made.json()['key']}"}
            assert httpx.get(f"{server.url}/v1/sources", headers=secret).status_code == 403

            redis.start()
            redis.call("ACL", "SETUSER", "app", "on", ">secret", "~*", "+@all")
            redis.call("XADD", "events", "*", "event", four_fields("b", "ann", 5))
            until(lambda: reports(server.url, "sources")["feed"]["applied"] > 0, "it counts")
            until(lambda: reports(server.url, "sources")["feed"]["wait"] is None, "it goes on")


def test_all_workers_report_the_same(tmp_path: Path) -> None:
    """Each request has a connection of its own, which the kernel gives to one of the workers."""
    events, config = tmp_path / "events", tmp_path / "laurels.toml"
    events.write_bytes(four_fields("b", "ann", 5) + b"\n")
    config.write_text(
        f'[sinks.lines]\nto = "{tmp_path / "changes"}"\n'
        f'[sinks.down]\nto = "redis://127.0.0.1:1/0/changes"\n'
        f'[sources.feed]\nfrom = "{events}"\nmap = "{FOUR_FIELDS}"\n'
        f'rejects = "{tmp_path / "rejects"}"\n'
    )
    with Server() as redis:
        with laurels.open(redis.url) as lb:
            lb.create(laurels.Board("b", changes="7d"))
        with Process(redis.url, "--workers", "2", "--config", str(config)) as server:

            def is_known() -> bool:
                bodies = [reports(server.url, "sinks") for _ in range(8)]
                sources = [reports(server.url, "sources") for _ in range(8)]
                return all(
                    each["lines"]["delivered"] > 0 and each["down"]["wait"] is not None
                    for each in bodies
                ) and all(each["feed"]["applied"] == 1 for each in sources)

            def is_in_metrics() -> bool:
                metrics = httpx.get(f"{server.url}/metrics", headers=ADMIN).text.split("\n")
                delivered = [line for line in metrics if "laurels_sink_delivered_total{" in line]
                assert [line.partition("{")[2].rpartition(" ")[0] for line in delivered] == [
                    'sink="lines"}',
                    'sink="down"}',
                ]
                workers.update(line for line in metrics if line.startswith("laurels_streams{"))
                return len(workers) == 2

            until(is_known, "every worker knows it")
            workers = set[str]()
            until(is_in_metrics, "both workers show it in their metrics")


def test_a_state_that_is_old_or_broken_is_not_shown(tmp_path: Path) -> None:
    path = tmp_path / "flows.json"
    file, absent = ReportFile(path, time.monotonic), FlowReports([SinkReport("s", elsewhere=True)])
    reported = FlowReports([SinkReport("s", delivered=3)], [SourceReport("f", applied=2)])
    assert file.read(absent) == absent

    async def write() -> None:
        task = asyncio.create_task(file.go_on(lambda: reported, lambda _: None))
        while not path.exists():
            await asyncio.sleep(0)
        task.cancel()

    asyncio.run(write())
    assert file.read(absent) == reported
    stored = msgspec.json.decode(path.read_bytes())
    stored["written"] = time.monotonic() - STALE_SECONDS - 1
    path.write_bytes(msgspec.json.encode(stored))
    assert file.read(absent) == absent
    path.write_bytes(b"{")
    assert file.read(absent) == absent


def test_a_state_that_cannot_be_stored_is_reported_once(tmp_path: Path) -> None:
    file, warnings = ReportFile(tmp_path / "missing" / "flows.json", time.monotonic), list[str]()

    async def write() -> None:
        task = asyncio.create_task(file.go_on(FlowReports, warnings.append))
        while not warnings:
            await asyncio.sleep(0)
        task.cancel()

    asyncio.run(write())
    [warning] = warnings
    assert "cannot be stored" in warning


def test_errors_of_files_are_reported_without_their_folder(tmp_path: Path) -> None:
    (tmp_path / "boards").mkdir()
    sinks = {"s": SinkSettings(to=str(tmp_path / "missing" / "changes"))}
    with Served(tmp_path / "boards", admin_key=ADMIN_KEY, sinks=sinks) as server:
        until(lambda: reports(server.url, "sinks")["s"]["wait"] is not None, "it fails")
        assert str(tmp_path) not in str(reports(server.url, "sinks")["s"])


class BrokenStore:
    """A store whose calls fail in a way that nobody expects."""

    def __getattr__(self, name: str) -> Any:
        raise ZeroDivisionError(name)


@pytest.mark.parametrize("kind", ["sink", "source"])
def test_an_unexpected_error_is_logged_with_its_traceback(kind: str, tmp_path: Path) -> None:
    (tmp_path / "events").touch()
    store: Any = BrokenStore()
    errors: list[str | Exception] = []

    def report(_name: str, reason: str | Exception) -> None:
        errors.append(reason)

    async def play() -> None:
        flows: BackgroundSinks | BackgroundSources
        if kind == "sink":
            flows = BackgroundSinks(
                {"f": SinkSettings(to=str(tmp_path / "changes"))}, store, lambda: NOW_MS, report
            )
        else:
            source = ConfiguredSource(
                from_=str(tmp_path / "events"), rejects=str(tmp_path / "rejects")
            )
            flows = BackgroundSources({"f": source}, store, lambda: NOW_MS, lambda: "x", report)
        running = asyncio.create_task(flows.run())
        while not errors:
            await asyncio.sleep(0)
        running.cancel()
        wait = flows.metrics["f"].wait
        assert wait is not None
        assert (wait.code, wait.attempts) == ("internal", 1)

    asyncio.run(play())
    [error] = errors
    assert isinstance(error, ZeroDivisionError)
    with structlog.testing.capture_logs() as lines:
        log_flow(kind, "f", error)
        log_flow(kind, "f", SourceUnavailable("it is down"))
    unexpected, expected = lines
    assert (unexpected["log_level"], unexpected[kind]) == ("error", "f")
    assert unexpected["exc_info"] is error
    assert (expected["log_level"], "exc_info" in expected) == ("warning", False)
