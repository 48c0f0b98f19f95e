"""A source publishes its rejects to a subject of JetStream. Each reject is published once, and none
is lost while the subject is down or refuses rejects."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import nats
import pytest

import laurels
from laurels.errors.sources import InvalidRejects
from laurels.flows.sources.configured import ConfiguredSource
from laurels.flows.sources.dedupe_capacity import DedupeCapacity
from laurels.flows.sources.opening import OpenedRejects, open_reader, open_rejects
from laurels.flows.sources.rejects import RejectedMessage
from tests.cli.running import Shell
from tests.serving import ADMIN_KEY, Served

from .databases import Nats
from .nats_servers import NatsServer
from .sourcing import FOUR_FIELDS, SourceProcess, count, four_fields, scores, written

STREAM = "REJECTS"
RUN = ("source", "run", "s", "--from", "events", "--map", FOUR_FIELDS, "--until-end")
MALFORMED = [b"no event", four_fields("gifts", "ann", "many"), b'{"KeyPrefix": "gifts"}']
REFUSED = four_fields("gifts", "ann", 1 << 62)
"""An event that can be read, and that the board refuses."""


@pytest.fixture(scope="module")
def server() -> Iterator[NatsServer]:
    with NatsServer() as running:
        yield running


@pytest.fixture
def subject(server: NatsServer) -> str:
    """Create an empty stream. Return the address of its subject."""
    server.call(f"STREAM.DELETE.{STREAM}")
    return created(server)


def created(server: NatsServer) -> str:
    """Create the stream. Return the address of its subject."""
    server.create(STREAM, "rejects.>", duplicate_window=3_600_000_000_000)
    return f"{server.url}/rejects.gifts"


@pytest.fixture(autouse=True)
def folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Run each test in its own folder, where a source writes the rejects that it could not
    publish."""
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def shell(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Shell:
    with laurels.open(tmp_path / "boards") as lb:
        lb.create(laurels.Board("gifts"))
    return Shell(monkeypatch, tmp_path)


def gifts(member: str) -> list[bytes]:
    return [four_fields("gifts", member, 1)] * 3


def stored(server: NatsServer) -> list[RejectedMessage]:
    """Return the messages of the stream in their order."""

    async def read() -> list[RejectedMessage]:
        client = await nats.connect(server.url)
        try:
            stream = client.jetstream()
            messages = (await stream.stream_info(STREAM)).state.messages
            reader = await stream.subscribe("rejects.>", ordered_consumer=True)
            return [
                msgspec.json.decode((await reader.next_msg(60)).data, type=RejectedMessage)
                for _ in range(messages)
            ]
        finally:
            await client.close()

    return asyncio.run(read())


def rejects_at(address: str, warn: Callable[[str], None] = lambda _text: None) -> OpenedRejects:
    return open_rejects(address, "source", warn)


def test_a_subject_has_the_lines_of_a_rejects_file_once(
    server: NatsServer, subject: str, shell: Shell
) -> None:
    """A second store counts the same file under the same name, as after the loss of the first
    store."""
    written(shell.directory / "events", [*MALFORMED, four_fields("gifts", "ann", 1), REFUSED])
    assert shell(*RUN, "--rejects", "file").code == 1
    lines = (shell.directory / "file").read_bytes().splitlines()
    for at in ("second", "third"):
        with laurels.open(shell.directory / at) as lb:
            lb.create(laurels.Board("gifts"))
        ran = shell(*RUN, "--rejects", subject, "--at", at, "--json")
        assert ran.code == 1
        assert (ran.json()["rejects_file"], ran.json()["rejects_subject"]) == (None, subject)
        assert sorted(map(msgspec.json.encode, stored(server))) == sorted(lines)
    assert len(lines) == 4
    assert not (shell.directory / "s.rejects.jsonl").exists()


class Gifts:
    """A store in memory with the board gifts, which a test reads while a source feeds it."""

    def __init__(self) -> None:
        self.lb: laurels.AsyncLeaderboards | None = None

    @asynccontextmanager
    async def __call__(self) -> AsyncIterator[laurels.AsyncLeaderboards]:
        async with laurels.open_async("memory:") as self.lb:
            await self.lb.create(laurels.Board("gifts"))
            yield self.lb

    @property
    def scores(self) -> dict[str, object]:
        assert self.lb is not None
        return {entry.member: entry.score for entry in self.lb.sync.export("gifts")}


@pytest.mark.parametrize("alone", [False, True])
def test_a_subject_that_is_down_delays_the_source(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, alone: bool
) -> None:
    """A batch with a malformed message is counted only after the subject has acknowledged this
    message. The batch after an event that the board refuses is counted only after the subject has
    acknowledged this event. With `alone`, the board reports that it cannot remember the ids of a
    whole batch, so the source submits the events one by one, with the same result."""
    if alone:

        async def cannot(*_: object) -> bool:
            return False

        monkeypatch.setattr(DedupeCapacity, "can_remember", cannot)
    events = [*gifts("ann"), REFUSED, *gifts("bob"), b"no event", *gifts("eve")]
    boards, counted = Gifts(), list[list[str]]()

    with NatsServer() as server:

        def wait() -> None:
            counted.append([*boards.scores])
            if len(counted) in (3, 6):
                assert server.start()

        def kill(_runner: object, _figures: object) -> None:
            if len(counted) == 3:
                server.kill()

        subject = created(server)
        server.kill()
        done = count(
            boards,
            written(tmp_path / "events", events),
            FOUR_FIELDS,
            batch=4,
            on_wait=wait,
            on_progress=kill,
            storage=rejects_at(subject, pytest.fail),
        )
        assert done.waits == ["rejects_unavailable"] * 6
        assert counted == [["ann"]] * 6
        assert done.metrics.applied == 9
        assert [each.code for each in stored(server)] == ["value_out_of_range", "invalid_json"]


def test_a_subject_that_refuses_rejects_ends_the_run(
    server: NatsServer, subject: str, shell: Shell
) -> None:
    """The next run reads the malformed message again. It does not read the refused event again, so
    this event is written to a file."""
    events = written(shell.directory / "events", [*gifts("ann"), REFUSED])
    config = server.call(f"STREAM.INFO.{STREAM}")["config"]
    assert "error" not in server.call(f"STREAM.UPDATE.{STREAM}", {**config, "sealed": True})
    ran = shell(*RUN, "--rejects", subject)
    assert ran.code == 2
    assert "error [rejects_refused]" in ran.err
    assert (
        f"1 rejected messages were not delivered to {subject}; they are in s.rejects.jsonl"
        in ran.err
    )
    lines = (shell.directory / "s.rejects.jsonl").read_bytes().splitlines()
    assert [msgspec.json.decode(line)["code"] for line in lines] == ["value_out_of_range"]
    written(events, [b"no event", *gifts("bob")])
    assert shell(*RUN, "--rejects", subject).code == 2
    assert scores(shell.directory / "boards", "gifts") == {"ann": 3}
    assert shell(*RUN, "--rejects", "file").code == 1
    assert b"invalid_json" in (shell.directory / "file").read_bytes()
    assert scores(shell.directory / "boards", "gifts") == {"ann": 3, "bob": 3}


@pytest.mark.parametrize("limit", ["server", "stream"])
def test_a_reject_that_is_too_long_is_cut(
    server: NatsServer, subject: str, tmp_path: Path, limit: str
) -> None:
    if limit == "stream":
        config = server.call(f"STREAM.INFO.{STREAM}")["config"]
        assert "error" not in server.call(
            f"STREAM.UPDATE.{STREAM}", {**config, "max_msg_size": 1_000}
        )
    size = 1_048_500 if limit == "server" else 2_000
    done = count(
        Gifts(),
        written(tmp_path / "events", [b"x" * size, b"short"]),
        FOUR_FIELDS,
        storage=rejects_at(subject, pytest.fail),
    )
    assert (done.metrics.rejected, done.waits) == (2, [])
    texts = sorted(each.text for each in stored(server))
    assert texts == ["short", "x" * (size // (2 if limit == "server" else 4))]


@pytest.mark.parametrize(
    "address",
    [
        "nats://host",
        "nats://host/",
        "nats://host/a b",
        "nats://host/a.*",
        "nats://host:port/a",
        "nats://app:12/secret@host/a",
        "nats://app:12?secret@host/a",
        "nats://app:12/secret#x@host/a",
        "nats:/app:secret@host/a",
        "redis://app:secret@host/0/key",
    ],
)
def test_an_address_without_a_subject_is_refused(
    address: str, shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    written(shell.directory / "events", [b"no event"])
    with pytest.raises(InvalidRejects):
        rejects_at(address)
    monkeypatch.setenv("LAURELS_REJECTS", address)
    ran = shell(*RUN)
    assert (ran.code, "error [invalid_rejects]" in ran.err) == (2, True)
    assert "secret" not in ran.out + ran.err
    source = ConfiguredSource(from_="events", rejects=address)
    with pytest.raises(InvalidRejects):
        Served(shell.directory / "boards", admin_key=ADMIN_KEY, sources={"s": source})


class ClosedNats(Nats):
    """A NATS server that asks for a user and a password."""

    def command(self) -> Sequence[str]:
        return [*super().command(), "--user", "app", "--pass", "a/b?secret#%"]


LOGIN = "app:a%2Fb%3Fsecret%23%25"


def test_a_password_of_a_subject_works_and_is_not_shown(shell: Shell) -> None:
    """A login that is percent-encoded in the URL of the subject is decoded for the server. Neither
    the right password nor, in a second run, a wrong one is shown."""
    written(shell.directory / "events", [b"no event", REFUSED])

    async def create(url: str) -> None:
        client = await nats.connect(url, user="app", password="a/b?secret#%")
        await client.jetstream().add_stream(name=STREAM, subjects=["rejects.>"])
        await client.close()

    async def newest(address: str) -> int:
        reader = open_reader(address, sleep=asyncio.sleep, stdin=lambda _: b"", run="test")
        try:
            return (await reader.open()).newest.major
        finally:
            await reader.close()

    with ClosedNats() as server:
        place = f"127.0.0.1:{server.port}/rejects"
        asyncio.run(create(f"nats://127.0.0.1:{server.port}"))
        ran = shell(*RUN, "--rejects", f"nats://{LOGIN}@{place}.s")
        assert ran.code == 1
        assert asyncio.run(newest(f"nats://{LOGIN}@127.0.0.1:{server.port}/{STREAM}")) == 2
        assert f": nats://{place}.s" in ran.err
        rejects = ("--rejects", f"nats://app:wrong-secret@{place}.s")
        # without waiting, the command would end
        arguments = ("t", "--from", "events", "--until-end", *rejects)
        with SourceProcess(shell.directory, *arguments) as source:
            assert source.child.stderr is not None
            while b"waiting" not in (line := source.child.stderr.readline()):
                assert line, "the source has ended"
            source.child.send_signal(signal.SIGTERM)
            _, out, err = source.ended()
    assert b"[rejects_unavailable]" in line
    assert "secret" not in ran.out + ran.err + line.decode() + out + err
