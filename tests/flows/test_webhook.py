"""Webhooks: the requests that a receiver gets, the effect of its answers, and the addresses that a
sink never contacts."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import socket
import threading
from collections.abc import Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import msgspec
import pytest

import laurels
from laurels.errors.sinks import InvalidTarget, SinkBehind, TargetRefused, TargetUnavailable
from laurels.flows.sinks import webhook
from laurels.flows.sinks.opening import DeliveryOptions, open_target, webhook_secret
from laurels.flows.sinks.parking import ParkingFile
from laurels.flows.sinks.target import SinkPage

from .moody_receiver import MoodyReceiver
from .sinking import NOW_MS, sent, sink_of

SECRET = "a secret of the receiver"
OPEN = DeliveryOptions(secret=SECRET, allows_private=True)


def test_the_secret_may_come_from_a_file(tmp_path: Path) -> None:
    file = tmp_path / "key"
    with pytest.raises(InvalidTarget, match="cannot be read"):
        webhook_secret(None, file)
    file.write_text("\n")
    with pytest.raises(InvalidTarget, match="an empty file"):
        webhook_secret(None, file)
    file.write_text(f"{SECRET}\n")
    assert webhook_secret(None, file) == SECRET
    assert webhook_secret("other", None) == "other"
    with pytest.raises(InvalidTarget, match="got both"):
        webhook_secret("other", file)


class Receiver(ThreadingHTTPServer):
    """A receiver of webhooks. It first gives the answers in `answers`, and then always 200."""

    def __init__(self, port: int = 0) -> None:
        super().__init__(("127.0.0.1", port), _Handler)
        self.answers: list[tuple[int, dict[str, str]]] = []
        self.taken: list[list[dict[str, Any]]] = []
        self.requests: list[tuple[dict[str, str], bytes]] = []
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def close(self) -> None:
        """Stop serving before closing the socket. A thread that still served a closed socket would
        never end."""
        self.shutdown()
        self.server_close()

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/hook?x=1"

    @property
    def ids(self) -> list[str]:
        return [change["id"] for page in self.taken for change in page]


class _Handler(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        receiver: Any = self.server
        body = self.rfile.read(int(self.headers["content-length"]))
        headers = {name.lower(): value for name, value in self.headers.items()}
        receiver.requests.append((headers, body))
        status, more = receiver.answers.pop(0) if receiver.answers else (200, {})
        if status == 200:
            receiver.taken.append(msgspec.json.decode(body))
        self.send_response(status)
        for name, value in {"Content-Length": "0", **more}.items():
            self.send_header(name, value)
        self.end_headers()

    def log_message(self, *_: Any) -> None:
        """Log nothing."""


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with Receiver() as server:
        yield server


async def opened(changes: int = 3) -> laurels.AsyncLeaderboards:
    lb = await laurels.open_async("memory:", clock=laurels.ManualClock(NOW_MS))
    await lb.create(laurels.Board("b", changes="7d"))
    await lb.submit_many("b", [(f"m{i}", i) for i in range(changes)])
    return lb


async def ids(lb: laurels.AsyncLeaderboards) -> list[str]:
    page = await lb.changes("b", limit=10_000)
    return [change.id for change in page if change.kind != "position"]


def test_pages_are_signed_and_have_at_most_500_changes(receiver: Receiver) -> None:
    async def play() -> None:
        lb = await opened(1_200)
        await sent(lb, receiver.url, delivery=OPEN)
        assert [len(page) for page in receiver.taken] == [500, 500, 201]
        assert receiver.ids == await ids(lb)
        for headers, body in receiver.requests:
            stamped = headers["laurels-timestamp"]
            assert int(stamped) == NOW_MS // 1_000
            signed = hmac.new(SECRET.encode(), f"{stamped}.".encode() + body, hashlib.sha256)
            assert headers["laurels-signature"] == f"v1={signed.hexdigest()}"
            assert headers["host"].startswith("127.0.0.1:")
            assert headers["content-type"] == "application/json"
        await lb.close()

    asyncio.run(play())


@pytest.mark.parametrize("status", [500, 503, 429, 408])
def test_temporary_errors_are_retried(receiver: Receiver, status: int) -> None:
    waits: list[float] = []

    async def sleep(seconds: float) -> None:
        waits.append(seconds)

    async def play() -> None:
        lb = await opened()
        receiver.answers = [(status, {"Retry-After": "77"}), (status, {"Retry-After": "9999"})]
        receiver.answers += [(status, {}), (status, {"Retry-After": "soon"})]
        await sent(lb, receiver.url, delivery=OPEN, sleep=sleep)
        assert receiver.ids == await ids(lb)
        assert waits[:2] == [77.0, 300.0]
        assert all(0 < wait < 10 for wait in waits[2:])
        await lb.close()

    asyncio.run(play())


@pytest.mark.parametrize(
    "answer", [(400, {}), (404, {}), (302, {"Location": "http://127.0.0.1:1/"})]
)
def test_refused_pages_are_parked_and_can_be_sent_again(
    receiver: Receiver, answer: tuple[int, dict[str, str]], tmp_path: Path
) -> None:
    async def play() -> None:
        lb = await opened(600)
        parking = ParkingFile(tmp_path / "parked.jsonl", "sink")
        receiver.answers = [answer] * 3
        sink = await sent(lb, receiver.url, delivery=OPEN, parking=parking, tries=3)
        assert (sink.metrics.parked, sink.metrics.delivered) == (500, 101)
        assert receiver.ids == (await ids(lb))[500:]
        (parked,) = parking.read()
        assert f"answered {answer[0]}" in parked.error
        target = open_target(receiver.url, "sink", OPEN, lb, lambda: NOW_MS)
        await target.open()
        receiver.answers = [answer]
        with pytest.raises(TargetRefused):
            await parking.resend(target)
        assert len(parking.read()) == 1
        assert await parking.resend(target) == 500
        await target.close()
        assert parking.read() == []
        assert sorted(receiver.ids) == sorted(await ids(lb))
        await lb.close()

    asyncio.run(play())


def test_without_a_parking_file_a_refusal_stops_the_board(receiver: Receiver) -> None:
    async def play() -> None:
        lb = await opened()
        receiver.answers = [(400, {})]
        sink = sink_of(lb, receiver.url, delivery=OPEN)
        await sink.run()
        assert isinstance(sink.failed["b"], TargetRefused)
        assert not isinstance(sink.failed["b"], SinkBehind)
        assert await lb.position("b", "sink:sink") is None
        await lb.close()

    asyncio.run(play())


@pytest.mark.parametrize(
    "host",
    [
        *("127.0.0.1", "localhost", "[::1]", "10.0.0.1", "169.254.169.254", "[::ffff:127.0.0.1]"),
        *("224.0.0.1", "[ff0e::1]", "0.0.0.0", "2130706433"),
        *("[64:ff9b::7f00:1]", "[64:ff9b::a9fe:a9fe]", "[2002:7f00:1::]", "[::7f00:1]"),
        *("[64:ff9b:1::a00:1]", "[fec0::1]", "[2001:0:7f00:1::]"),
    ],
)
def test_private_addresses_are_not_called(host: str) -> None:
    async def play() -> None:
        lb = await opened()
        sink = sink_of(lb, f"http://{host}:9/x", delivery=DeliveryOptions())
        await sink.run()
        assert "private network" in str(sink.failed["b"])
        await lb.close()

    asyncio.run(play())


class Names:
    """A resolver that gives these answers, one for each lookup of a name."""

    def __init__(self, *answers: list[str]) -> None:
        self._answers = list(answers)
        self.questions: list[object] = []

    async def getaddrinfo(self, host: object, port: int, **_: object) -> list[Any]:
        self.questions.append(host)
        answer = self._answers.pop(0)
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (each, port)) for each in answer]


@pytest.mark.parametrize("answer", [["10.1.2.3"], ["93.184.216.34", "127.0.0.1"]])
def test_a_name_of_a_private_address_is_not_called(
    answer: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A name is refused if any of its addresses is private, even if another address is public."""

    async def play() -> None:
        lb = await opened()
        names = Names(answer)
        monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", names.getaddrinfo)
        sink = sink_of(lb, "https://hook.example.com/x", delivery=DeliveryOptions())
        await sink.run()
        assert "private network" in str(sink.failed["b"])
        assert names.questions == ["hook.example.com"]
        await lb.close()

    asyncio.run(play())


def test_a_name_is_resolved_only_once(receiver: Receiver, monkeypatch: pytest.MonkeyPatch) -> None:
    """A second lookup of the name would return the loopback address of the receiver. The sink looks
    the name up only once, and sends the request to the public address that this lookup returned."""
    called: list[object] = []

    async def play() -> None:
        lb = await opened()
        loop = asyncio.get_running_loop()
        names = Names(["93.184.216.34"], ["127.0.0.1"])

        async def connect(_protocol: object, host: object, *_: object, **__: object) -> None:
            called.append(host)
            raise OSError("the test has no network")

        monkeypatch.setattr(loop, "getaddrinfo", names.getaddrinfo)
        monkeypatch.setattr(loop, "create_connection", connect)
        url = receiver.url.replace("127.0.0.1", "hook.example.com")
        target = open_target(url, "sink", DeliveryOptions(), lb, lambda: NOW_MS)
        await target.open()
        page = await lb.changes("b", limit=500)
        with pytest.raises(TargetUnavailable):
            await target.deliver(SinkPage("b", page.changes, None, page.cursor))
        await target.close()
        assert names.questions == ["hook.example.com"]
        assert {*called} == {"93.184.216.34"}
        assert not receiver.requests
        await lb.close()

    asyncio.run(play())


def test_the_body_of_an_answer_does_not_matter(receiver: Receiver) -> None:
    """The sink does not read the body. An endless one would otherwise fill the memory or block the
    sink."""

    async def play() -> None:
        lb = await opened()
        receiver.answers = [(200, {"Content-Length": str(10**12)})]
        await sent(lb, receiver.url, delivery=OPEN)
        assert receiver.ids == await ids(lb)
        await lb.close()

    asyncio.run(play())


def test_a_second_answer_is_not_taken_for_that_of_the_next_request() -> None:
    async def play() -> None:
        lb = await opened(1_200)
        with MoodyReceiver() as receiver:
            receiver.moods.extend(["answers twice", "refuses"])
            await sent(lb, receiver.url, delivery=OPEN)
            assert receiver.requests == 4
            assert [change["id"] for change in receiver.taken] == await ids(lb)
        await lb.close()

    asyncio.run(play())


@pytest.mark.parametrize("answer", [b"", b"HTTP/1.1 100 Continue\r\n\r\n"])
def test_a_receiver_that_never_answers_times_out(
    answer: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The receiver sends nothing, or sends `100 Continue` without end. The sink times out."""
    monkeypatch.setattr(webhook, "ANSWER_SECONDS", 0.02)

    async def answers(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while await reader.read(65_536) if not answer else not writer.is_closing():
                writer.write(answer)
                await writer.drain()
                await asyncio.sleep(0)
        writer.close()

    async def play() -> None:
        lb = await opened()
        server = await asyncio.start_server(answers, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        target = open_target(f"http://127.0.0.1:{port}/", "sink", OPEN, lb, lambda: NOW_MS)
        await target.open()
        page = await lb.changes("b", limit=500)
        with pytest.raises(TargetUnavailable, match="did not answer"):
            await target.deliver(SinkPage("b", page.changes, None, page.cursor))
        await target.close()
        server.close()
        await lb.close()

    asyncio.run(play())


@pytest.mark.parametrize("url", ["http://", "https://user:pw@example.com/", "ftp://example.com/x"])
def test_an_invalid_webhook_url_is_refused(url: str) -> None:
    async def play() -> None:
        lb = await opened()
        with pytest.raises(InvalidTarget):
            open_target(url, "sink", OPEN, lb, lambda: NOW_MS)
        await lb.close()

    asyncio.run(play())


def test_a_stopped_sink_resumes_at_its_stored_position(receiver: Receiver) -> None:
    """If the sink stops before the store has recorded the position of a page, the page is sent
    again."""

    async def play() -> None:
        lb = await opened(600)
        sink = sink_of(lb, receiver.url, delivery=OPEN)
        target = sink.target
        await target.open()
        page = await lb.changes("b", limit=500)
        await target.deliver(SinkPage("b", page.changes, None, page.cursor))
        await target.close()
        await sent(lb, receiver.url, delivery=OPEN)
        everything = await ids(lb)
        assert receiver.ids == everything[:500] + everything
        await lb.close()

    asyncio.run(play())


def test_a_kill_while_parking_leaves_no_damage(tmp_path: Path) -> None:
    """The kill leaves half a line in the file. The sink removes it and parks its page again,
    because the store has not recorded a position after that page."""

    async def play() -> None:
        lb = await opened()
        parking = ParkingFile(tmp_path / "parked.jsonl", "sink")
        page = SinkPage("b", (await lb.changes("b")).changes, None, "x")
        await parking.park(page, TargetRefused("no"))
        whole = parking.path.read_bytes()
        parking.path.write_bytes(whole + whole[:40])
        await parking.park(page, TargetRefused("no"))
        assert parking.path.read_bytes() == whole * 2
        assert parking.path.stat().st_mode & 0o777 == 0o600
        assert [len(each.changes) for each in parking.read()] == [4, 4]
        await lb.close()

    asyncio.run(play())
