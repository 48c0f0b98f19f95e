"""Live feeds in the client: their events, and reconnecting."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import pytest

import laurels
from laurels.errors import LaurelsError, UnknownBoard
from laurels.errors.service import ServerUnreachable
from laurels.stores.http import feed
from laurels.stores.http.call import Call
from tests.internals import wire_of
from tests.serving import Served


def test_events_are_read_from_lines() -> None:
    lines = [b"retry: 2000", b"", b"event: top", b"id: e.1", b'data: {"a":1}', b"", b": heartbeat"]
    lines += [b"", b"event: change\r", b"id:e.2\r", b"data:{}\r", b"\r", b"event: top", b"data: {"]
    assert list(feed.events(lines)) == [
        feed.StreamEvent("top", "e.1", b'{"a":1}'),
        feed.StreamEvent("change", "e.2", b"{}"),
    ]


def event(number: int, kind: str = "change") -> list[bytes]:
    return [f"event: {kind}".encode(), f"id: e.{number}".encode(), b"data: {}", b""]


class Streams:
    """A service whose connections send the prepared lines, or fail."""

    def __init__(self, *connections: list[bytes | LaurelsError] | LaurelsError) -> None:
        self._connections = iter(connections)
        self.last_ids: list[str | None] = []

    def lines(self, call: Call[None]) -> Iterator[bytes]:
        self.last_ids.append(call.extra_headers.get("Last-Event-ID"))
        connection = next(self._connections)
        if isinstance(connection, LaurelsError):
            raise connection
        return self._sent(connection)

    def _sent(self, lines: list[bytes | LaurelsError]) -> Iterator[bytes]:
        for line in lines:
            if isinstance(line, LaurelsError):
                raise line
            yield line


def test_a_feed_continues_after_a_broken_connection() -> None:
    gone = ServerUnreachable("gone")
    streams = Streams(
        [*event(1, "top"), *event(2), b"event: change", gone],
        gone,
        [*event(3), b"event: end", b"data: {}", b""],
        [*event(4)],
    )
    slept: list[float] = []
    lost: list[LaurelsError] = []
    events = feed.watched(
        streams, lambda last: feed.live("b", after=last), slept.append, lost.append
    )
    assert [each.id for each in islice(events, 4)] == ["e.1", "e.2", "e.3", "e.4"]
    assert streams.last_ids == [None, "e.2", "e.2", "e.3"]
    assert slept == [2, 2, 2]
    assert lost == [gone, gone]


def test_an_error_of_the_first_request_is_raised() -> None:
    events = feed.watched(
        Streams(UnknownBoard("there is no board 'b'")),
        lambda last: feed.live("b", after=last),
        lambda _: None,
        lambda _: None,
    )
    with pytest.raises(UnknownBoard):
        next(events)


def test_a_server_is_followed(tmp_path: Path) -> None:
    with Served(tmp_path / "boards") as served, laurels.open(served.url) as lb:
        lb.create(laurels.Board("b"))
        events = feed.watched(
            wire_of(lb), lambda last: feed.live("b", after=last), lambda _: None, lambda _: None
        )
        assert next(events).kind == "top"
        lb.submit("b", "ann", 1)
        changed = next(events)
        assert (changed.kind, b'"member":"ann"' in changed.data) == ("change", True)
        with pytest.raises(UnknownBoard):
            wire_of(lb).lines(feed.live("none"))
