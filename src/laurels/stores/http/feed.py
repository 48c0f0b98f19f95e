"""Reads a live feed of a service, and reconnects after broken connections."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Protocol

from msgspec import Struct

from laurels.errors import Unavailable
from laurels.model.labels import label_pairs
from laurels.wire.live import RETRY_MS
from laurels.wire.parameters import board_path, target, write_labels

from .arguments import member_text
from .call import Call, nothing


class StreamEvent(Struct, frozen=True):
    """An event of a feed; `data` is a JSON document."""

    kind: str
    id: str
    data: bytes


class Streams(Protocol):
    """The method of `transport.Wire` that is used here."""

    def lines(self, call: Call[None]) -> Iterator[bytes]: ...


def live(
    board: str,
    *,
    window: str | None = None,
    limit: int = 10,
    member: str | None = None,
    by: str | None = None,
    labels: Mapping[str, str] | None = None,
    to_rank: int | None = None,
    after: str = "",
) -> Call[None]:
    """Return the request for a feed that continues after the event with the id `after`."""
    path = target(
        board_path(board, "live"),
        window=window,
        limit=limit if member is None else None,
        member=None if member is None else member_text(member),
        labels=write_labels(label_pairs(labels)),
        by=by,
        to_rank=to_rank,
    )
    extra_headers = {"Accept": "text/event-stream"} | ({"Last-Event-ID": after} if after else {})
    return Call("GET", path, nothing, extra_headers=extra_headers)


def events(lines: Iterable[bytes]) -> Iterator[StreamEvent]:
    """Yield the events in the lines of a stream, without an incomplete event at its end."""
    fields: dict[bytes, bytes] = {}
    for ended in lines:
        line = ended.removesuffix(b"\r")
        name, _, value = line.partition(b":")
        if name:
            fields[name] = value.removeprefix(b" ")
        elif b"data" in fields and not line:
            kind, id = (fields.get(each, b"").decode() for each in (b"event", b"id"))
            yield StreamEvent(kind, id, fields[b"data"])
            fields = {}


def watched(
    streams: Streams,
    call: Callable[[str], Call[None]],
    sleep: Callable[[float], object],
    lost: Callable[[Unavailable], object],
) -> Iterator[StreamEvent]:
    """Yield the events of a feed, endlessly.

    `call` returns the request for the feed after an event, given its id. If the first request
    fails, its error is raised. If the feed fails later, `lost` is called with the error, and the
    feed is requested again.
    """
    last, lines = "", streams.lines(call(""))
    while True:
        try:
            for event in events(lines):
                last = event.id or last
                if event.kind == "end":
                    break
                yield event
            sleep(RETRY_MS / 1_000)
            lines = streams.lines(call(last))
        except Unavailable as error:
            lost(error)
            lines = iter(())
