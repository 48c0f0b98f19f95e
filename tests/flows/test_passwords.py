"""The passwords of targets and streams work, and no output shows them."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

import laurels
from laurels import config
from laurels.cli import main
from laurels.errors import LaurelsError
from laurels.flows.sinks.opening import DeliveryOptions, open_target
from laurels.flows.sinks.target import SinkPage
from laurels.flows.sources.opening import open_reader
from tests.redis.servers import Server, free_port

from .sinking import NOW_MS, nothing

PASSWORD = "hunter2-of-the-test"
LOGIN = f"app:{PASSWORD}@127.0.0.1"


@pytest.fixture
def boards(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    with laurels.open(tmp_path / "boards") as lb:
        lb.create(laurels.Board("b", changes="7d"))
        lb.submit("b", "ann", 1)
    return str(tmp_path / "boards")


def test_a_password_in_the_environment_works_and_is_not_shown(
    boards: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The command line, which other users of the machine may see, contains no URL."""
    with Server() as redis:
        redis.call("CONFIG", "SET", "requirepass", PASSWORD)
        address = f"redis://:{PASSWORD}@127.0.0.1:{redis.port}/0"
        monkeypatch.setenv("LAURELS_TO", f"{address}/changes")
        assert main(["sink", "run", "s", "--at", boards, "--until-end"]) == 0
        assert main(["sink", "status", "s", "--at", boards]) == 0
        assert main(["sink", "list", "--at", boards, "--json"]) == 0
        redis.call("XADD", "events", "*", "board", "b", "member", "eve", "value", 5)
        monkeypatch.setenv("LAURELS_FROM", f"{address}/events")
        assert main(["source", "run", "r", "--at", boards, "--until-end", "--json"]) == 0
        assert main(["source", "status", "r", "--at", boards]) == 0
        monkeypatch.setenv("LAURELS_TO", f"{address}/changes".replace("hunter2", "hunter3"))
        assert main(["sink", "run", "s", "--at", boards, "--until-end"]) == 2
        assert redis.call("XLEN", "changes") == 2
    monkeypatch.setenv("LAURELS_WITH", f"sqlite://{LOGIN}/nowhere/ledger.db")
    assert main(["reconcile", "b", "--at", boards]) == 2
    with laurels.open(boards) as lb:
        assert lb.rank("b", "eve") == 1
        stored = str(lb.positions("b"))
    out, err = capsys.readouterr()
    for text in (out, err, stored):
        assert "of-the-test" not in text


@pytest.mark.parametrize(
    "url",
    [
        f"postgresql://{LOGIN}:{{port}}/test",
        f"postgresql://127.0.0.1:{{port}}/test?password={PASSWORD}",
        f"postgresql://127.0.0.1:{{port}}/test?password={PASSWORD}&nonsense=1",
        f"mysql://{LOGIN}:{{port}}/test",
        f"mysql://{LOGIN}:{{port}}/test?password={PASSWORD}",
        f"redis://{LOGIN}:{{port}}/0/changes",
        f"redis://{LOGIN}:{{port}}/none",
        f"nats://{LOGIN}:{{port}}/changes",
        f"nats://{LOGIN}:{{port}}/ch nges",
        f"http://{LOGIN}:{{port}}/x",
        f"http://127.0.0.1:{{port}}/x?token={PASSWORD}",
        f"https://ex\0ample.invalid/{PASSWORD}",
        f"sqlite://{LOGIN}/x",
        f"amqp://{LOGIN}/x",
    ],
)
def test_an_error_of_a_target_has_no_password(url: str) -> None:
    async def deliver(lb: laurels.AsyncLeaderboards) -> None:
        options = DeliveryOptions(allows_private=True)
        target = open_target(url.format(port=free_port()), "s", options, lb, lambda: NOW_MS)
        try:
            await target.open()
            page = await lb.changes("b")
            await target.deliver(SinkPage("b", page.changes, None, page.cursor))
        finally:
            await target.close()

    async def play() -> None:
        async with laurels.open_async("memory:", clock=laurels.ManualClock(NOW_MS)) as lb:
            await lb.create(laurels.Board("b", changes="7d"))
            with pytest.raises(LaurelsError) as caught:
                await deliver(lb)
            assert PASSWORD not in str(caught.value)

    asyncio.run(play())


@pytest.mark.parametrize(
    "address",
    [
        f"nats://{LOGIN}:{{port}}/EVENTS",
        f"nats://{LOGIN}:{{port}}/",
        f"redis://{LOGIN}:{{port}}/0/events",
        f"redis://{LOGIN}:{{port}}/events",
        f"amqp://{LOGIN}/x",
    ],
)
def test_an_error_of_a_stream_has_no_password(address: str) -> None:
    async def read() -> None:
        at = address.format(port=free_port())
        reader = open_reader(at, sleep=nothing, stdin=lambda _: b"", run="r")
        assert PASSWORD not in reader.name
        try:
            await reader.open()
        finally:
            await reader.close()

    with pytest.raises(LaurelsError) as caught:
        asyncio.run(read())
    assert PASSWORD not in str(caught.value)


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        (f"postgresql://{LOGIN}/test?prefix=x_", "postgresql://127.0.0.1/test?prefix=x_"),
        (
            f"postgresql://h/d?password={PASSWORD}&prefix=x_&sslpassword=x",
            "postgresql://h/d?prefix=x_",
        ),
        (f"postgresql://h/d?pass%77ord={PASSWORD}", "postgresql://h/d"),
        ("./boards?password=1", "./boards?password=1"),
    ],
)
def test_the_audit_log_has_urls_without_passwords(url: str, shown: str) -> None:
    assert config.without_login(url) == shown
