"""Passwords in the URLs of targets and streams work, and no output contains them."""

from __future__ import annotations

import asyncio
import traceback
from pathlib import Path

import httpx
import pytest

import laurels
from laurels import config
from laurels.cli import main
from laurels.errors import LaurelsError
from laurels.errors.service import InvalidSettings
from laurels.errors.sinks import InvalidTarget
from laurels.flows.sinks.configured import SinkSettings
from laurels.flows.sinks.opening import DeliveryOptions, open_target
from laurels.flows.sinks.target import SinkPage
from laurels.flows.sources.configured import ConfiguredSource
from laurels.flows.sources.opening import open_reader
from laurels.server.process.settings import settings_of
from laurels.sql.databases import dialect_of
from tests.redis.servers import Server, free_port, until
from tests.serving import ADMIN_KEY, Served

from .databases import MariaDB, Nats, Postgres
from .sinking import NOW_MS, nothing
from .test_served_sinks import ADMIN, sample
from .test_webhook import Receiver

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
    """The URL is not on the command line, which other users of the machine may be able to see."""
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
        f"nats://app:12/{PASSWORD}@127.0.0.1/changes",
        f"nats:/{LOGIN}/changes",
        f"mysql//{LOGIN}/changes",
        f"postgresql://localhost:{PASSWORD}/x@127.0.0.1/test",
        f"postgresql://app:%zz{PASSWORD}@127.0.0.1/test",
        f"postgresql://app:[{PASSWORD}]@127.0.0.1/test",
        f"mysql://app:{PASSWORD}/x@127.0.0.1/test",
        f"http://:{PASSWORD}@127.0.0.1:{{port}}/x",
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
            assert_hidden(caught.value)

    asyncio.run(play())


def assert_hidden(error: LaurelsError) -> None:
    """Assert that an error, its causes, and its form in a log do not contain the password."""
    assert PASSWORD not in "".join(traceback.format_exception(error))
    assert PASSWORD not in repr(error)


@pytest.mark.parametrize("url", [f"mysql://app:[{PASSWORD}]@h/d", f"postgresql://u:{PASSWORD}/x"])
def test_an_error_of_a_ledger_has_no_password(url: str) -> None:
    with pytest.raises(InvalidTarget) as caught:
        dialect_of(url)
    assert_hidden(caught.value)


SECRETS = f"""to = "redis://{LOGIN}/0/k"
secret = "{PASSWORD}"
"""


@pytest.mark.parametrize(
    ("text", "named"),
    [
        (f"[sinks.a]\n{SECRETS}tries = 'many'", r"\[sinks\.NAME\.tries\]: expected `int`"),
        (f"[sinks.a]\n{SECRETS}[sinks.b]", r"\[sinks\.NAME\]: .*`to`"),
        (f"[sinks.a]\n{SECRETS}url = 1", "unknown field `url`"),
        (f"[sinks]\n{SECRETS}", r"\[sinks\.NAME\]: expected `object`"),
        (f"sinks = ['redis://{LOGIN}/0/k']", r"\[sinks\]: expected `object`"),
        (f"[sinks.a]\nto = ['redis://{LOGIN}/0/k']", r"\[sinks\.NAME\.to\]: expected `str`"),
        (f"[sources.a]\nfrom = 'nats://{LOGIN}/S'\nbatch = 0", r"\[sources\.NAME\.batch\]"),
        (f"[sources.a]\nfrom = 'nats://{LOGIN}/S'\nbegin = '{PASSWORD}'", r"NAME\.begin\]"),
        (f"[sources.a]\nform = 'nats://{LOGIN}/S'", "unknown field `form`"),
    ],
)
def test_an_error_of_the_settings_has_no_password(text: str, named: str, tmp_path: Path) -> None:
    file = tmp_path / "laurels.toml"
    file.write_text(text)
    with pytest.raises(InvalidSettings, match=named) as caught:
        settings_of({}, {}, file)
    assert PASSWORD not in str(caught.value)


def test_a_server_shows_no_password_whatever_the_state_of_its_sinks_and_sources(
    tmp_path: Path,
    postgres: Postgres,
    mariadb: MariaDB,
    capfd: pytest.CaptureFixture[str],
) -> None:
    """The sinks and sources of the server run, cannot reach their servers, or are refused by
    them."""
    with Server() as redis, Nats() as nats, Receiver() as hook, Receiver() as refusing:
        redis.call("CONFIG", "SET", "requirepass", PASSWORD)
        refusing.answers += [(400, {})] * 1_000
        down = free_port()
        login = f"app:{PASSWORD}@127.0.0.1"
        running = {
            "redis-runs": f"redis://:{PASSWORD}@127.0.0.1:{redis.port}/0/changes",
            "postgres-runs": with_password(postgres.url, "prefix=pw_"),
            "hook-runs": f"http://127.0.0.1:{hook.server_address[1]}/{PASSWORD}?token={PASSWORD}",
        }
        failing = {
            "redis-down": f"redis://:{PASSWORD}@127.0.0.1:{down}/0/changes",
            "redis-refused": f"redis://:{PASSWORD}-not@127.0.0.1:{redis.port}/0/changes",
            "postgres-down": f"postgresql://{login}:{down}/test",
            "postgres-refused": with_password(postgres.url, "prefix=pw_").replace("/test", "/no"),
            "mysql-down": f"mysql://{login}:{down}/test",
            "mysql-refused": with_password(mariadb.url, "prefix=pw_"),
            "nats-down": f"nats://{login}:{down}/changes",
            "nats-refused": f"nats://{login}:{nats.port}/changes",
            "hook-down": f"http://127.0.0.1:{down}/{PASSWORD}?token={PASSWORD}",
            "hook-refused": f"http://127.0.0.1:{refusing.server_address[1]}/x?token={PASSWORD}",
        }
        sources = {
            "events-run": f"redis://:{PASSWORD}@127.0.0.1:{redis.port}/0/events",
            "events-down": f"redis://:{PASSWORD}@127.0.0.1:{down}/0/events",
            "events-refused": f"redis://:{PASSWORD}-not@127.0.0.1:{redis.port}/0/events",
            "nats-events": f"nats://{login}:{nats.port}/EVENTS",
        }
        with Served(
            tmp_path / "boards",
            admin_key=ADMIN_KEY,
            sinks={
                name: SinkSettings(
                    to=url,
                    secret=PASSWORD if "hook" in name else None,
                    allow_private=True,
                    tries=1,
                    parked=str(tmp_path / f"{name}.parked"),
                )
                for name, url in (running | failing).items()
            },
            sources={
                name: ConfiguredSource(from_=url, rejects=str(tmp_path / f"{name}.rejects"))
                for name, url in sources.items()
            },
        ) as server:
            with laurels.open(server.url.replace("//", f"//{ADMIN_KEY}@")) as lb:
                lb.create(laurels.Board("b", changes="7d"))
                lb.submit("b", "ann", 1)
            log = ""

            def output() -> str:
                nonlocal log
                log += "".join(capfd.readouterr())
                return log

            until(
                lambda: all(f"sink={name}" in output() for name in failing),
                "each sink that cannot send says so",
            )
            until(
                lambda: all(f"source={name}" in output() for name in sources if "run" not in name),
                "each source that cannot read says so",
            )
            until(
                lambda: (
                    not any(
                        line.endswith(" 0.0")
                        for line in sample(server.url, "laurels_sink_delivered_total", ADMIN)
                        if "-runs" in line
                    )
                ),
                "the others send",
            )
            paths = (
                *("/metrics", "/readyz", "/v1/stats", "/v1/boards", "/v1/audit", "/v1/sinks"),
                *("/v1/boards/b/positions", "/v1/boards/b/changes", "/v1/boards/b/stats"),
            )
            for path in paths:
                answer = httpx.get(server.url + path, headers=ADMIN)
                assert answer.status_code in (200, 503), path
                assert "hunter2" not in answer.text, path
    output()
    for file in tmp_path.glob("*.parked*"):
        log += file.read_text()
    assert "hook-refused" in log
    assert "hunter2" not in log


def with_password(url: str, query: str) -> str:
    """Return the URL of a database with a password in it, although the database needs none."""
    return f"{url.replace('@', f':{PASSWORD}@')}?{query}"


@pytest.mark.parametrize(
    "address",
    [
        f"nats://{LOGIN}:{{port}}/EVENTS",
        f"nats://{LOGIN}:{{port}}/",
        f"nats://app:{PASSWORD}/x@127.0.0.1/EVENTS",
        f"nats://app:12/{PASSWORD}@host/EVENTS",
        f"nats://app:12/{PASSWORD}@host",
        f"nats:/{LOGIN}/EVENTS",
        f"redis://app:[{PASSWORD}]@127.0.0.1/0/events",
        f"redis:/{LOGIN}/0/events",
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
    assert_hidden(caught.value)


@pytest.mark.parametrize(
    ("url", "expected"),
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
def test_the_audit_log_has_urls_without_passwords(url: str, expected: str) -> None:
    assert config.without_login(url) == expected
