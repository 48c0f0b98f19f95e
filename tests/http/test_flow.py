"""A stream is produced only as fast as its client reads it. While the client does not read, nothing
is produced."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from pathlib import Path
from typing import Any

import httpx
import pytest

from laurels.core.query import Query
from laurels.server.answers import peers
from laurels.server.answers.flow import CHECK_BYTES, Flow
from laurels.server.answers.peers import PeerDescriptors
from laurels.server.process.descriptors import open_descriptors
from laurels.stores.local.store import Service
from tests.http.listening import WITHIN_SECONDS, feed
from tests.serving import Served

MEMBERS = 60_000
PAGES = MEMBERS // 1_000


async def _write_members(http: httpx.AsyncClient) -> None:
    (await http.put("/v1/boards/b", json={})).raise_for_status()
    for start in range(0, MEMBERS, 10_000):
        events = [[f"{'m' * 100}{i}", i] for i in range(start, start + 10_000)]
        answer = await http.post("/v1/boards/b/scores?receipts=none", json=events)
        answer.raise_for_status()


async def _cut_off(http: httpx.AsyncClient) -> float:
    """Return how many streams the server has ended because their clients did not read."""
    lines = [line.split() for line in (await http.get("/metrics")).text.splitlines()]
    (count,) = [line[1] for line in lines if line[0] == "laurels_streams_cut_off_total"]
    return float(count)


def test_an_export_that_is_not_read_is_cut_off(tmp_path: Path) -> None:
    async def main(url: str) -> None:
        async with httpx.AsyncClient(base_url=url, timeout=WITHIN_SECONDS) as http:
            await _write_members(http)
            async with feed(url, "/v1/boards/b/export", buffer=4_096) as unread:
                async with asyncio.timeout(60):
                    while not await _cut_off(http):
                        await asyncio.sleep(0.05)
                assert (await unread.rest()).count(b'"member"') < MEMBERS

    with Served(tmp_path / "boards", stall_seconds=1) as server:
        asyncio.run(main(server.url))


def test_a_slow_reader_is_recognized_as_reading() -> None:
    async def main() -> None:
        with socket.create_server(("127.0.0.1", 0)) as listener, socket.socket() as client:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
            client.connect(listener.getsockname())
            sending, address = listener.accept()
            with sending:
                sending.setblocking(False)
                sent = 0
                with contextlib.suppress(BlockingIOError):
                    while True:
                        sent += sending.send(b"x" * 65_536)
                taken = Flow(written(address), PeerDescriptors()).taken_after(sent)
                waiting = asyncio.ensure_future(anext(taken))
                await asyncio.sleep(0)
                assert not waiting.done()
                async with asyncio.timeout(60):
                    while not waiting.done():
                        client.recv(4_096)
                        await asyncio.sleep(0.001)
                await waiting
                assert len(client.recv(1)) == 1, "the client has not read everything yet"
                await taken.aclose()

    asyncio.run(main())


def test_an_export_that_is_not_read_reads_no_pages(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = 0
    ask = Service.ask_async

    async def counted(self: Service, board: str, query: Query[Any]) -> Any:
        nonlocal made
        made += 1
        return await ask(self, board, query)

    async def settled(http: httpx.AsyncClient) -> int:
        """Send health checks until 50 of them in a row find that no further page was read. Return
        the number of pages that were read."""
        before, same = made, 0
        while same < 50:
            (await http.get("/healthz")).raise_for_status()
            before, same = (made, same + 1) if before == made else (made, 0)
        return made

    async def main(url: str) -> None:
        async with httpx.AsyncClient(base_url=url, timeout=WITHIN_SECONDS) as http:
            await http.put("/v1/boards/b", json={})
            for start in range(0, MEMBERS, 10_000):
                events = [[f"{'m' * 100}{i}", i] for i in range(start, start + 10_000)]
                await http.post("/v1/boards/b/scores?receipts=none", json=events)
            async with feed(url, "/v1/boards/b/export", buffer=4_096) as unread:
                assert 0 < await settled(http) < PAGES // 2
                lines = (await unread.rest()).count(b'"member"')
                assert (lines, made) == (MEMBERS, PAGES)

    monkeypatch.setattr(Service, "ask_async", counted)
    with Served(tmp_path / "boards") as server:
        asyncio.run(main(server.url))


def test_streams_that_begin_together_share_the_search_for_their_descriptors(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each stream needs the descriptor of its connection. The server looks through the descriptors
    of the process once for all streams together, not once for each stream."""
    streams, read = 300, 0
    peer_of = peers.peer_of

    def counted(descriptor: int) -> peers.Peer | None:
        nonlocal read
        read += 1
        return peer_of(descriptor)

    async def first_check(flow: Flow) -> None:
        async for _ in flow.taken_after(CHECK_BYTES):
            pass

    async def main() -> None:
        with contextlib.ExitStack() as stack:
            listener = stack.enter_context(socket.create_server(("127.0.0.1", 0), backlog=streams))
            descriptors, flows = PeerDescriptors(), []
            for _ in range(streams):
                stack.enter_context(socket.create_connection(listener.getsockname()))
                accepted, address = listener.accept()
                stack.enter_context(accepted)
                flows.append((Flow(written(address), descriptors), accepted.fileno()))
            most = len(open_descriptors())
            await asyncio.gather(*(first_check(flow) for flow, _ in flows))
            assert [flow._descriptor for flow, _ in flows] == [number for _, number in flows]
            assert read <= most

    monkeypatch.setattr(peers, "peer_of", counted)
    asyncio.run(main())


def test_a_stream_that_was_never_checked_is_cut_off() -> None:
    async def main() -> None:
        with socket.create_server(("127.0.0.1", 0)) as listener:
            client = socket.create_connection(listener.getsockname(), timeout=WITHIN_SECONDS)
            accepted, address = listener.accept()
            with client, accepted:
                await Flow(written(address), PeerDescriptors()).cut()
                assert client.recv(1) == b""

    asyncio.run(main())


def test_a_descriptor_that_was_used_again_is_searched_for_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def main() -> None:
        descriptors = PeerDescriptors()
        with socket.create_server(("127.0.0.1", 0)) as listener:
            with socket.create_connection(listener.getsockname()):
                first, address = listener.accept()
                with first:
                    number = first.fileno()
                    assert await descriptors.find(address) == number
            assert await descriptors.find(address) is None
            with socket.create_connection(listener.getsockname()):
                second, other = listener.accept()
                with second:
                    assert await descriptors.find(other) == second.fileno()
                    assert await descriptors.find(address) is None

    monkeypatch.setattr(peers, "PAUSE_SECONDS", 0)
    asyncio.run(main())


def written(address: tuple[str, int]) -> str:
    """Return the address of a client in the form in which a request has it."""
    return f"{address[0]}:{address[1]}"
