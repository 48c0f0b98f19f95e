"""A live feed of boards on an index server, computed in this process. It has the same events as
the feed of a service."""

import secrets
import time
from collections.abc import AsyncGenerator, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from laurels import AsyncLeaderboards, Board, config
from laurels.server.live.channel import WatchedList
from laurels.server.live.hub import Hub
from laurels.stores.base import ThreadedStore
from laurels.stores.http import feed

_INTERVAL_MS = 100


class Followed:
    """Boards on an index server that can be watched."""

    def __init__(self, service: ThreadedStore) -> None:
        self._service = service
        self._lb: AsyncLeaderboards = service.run(_verbs(service))
        self._hub = Hub(
            self._lb,
            service.change_token,
            epoch=secrets.token_hex(4),
            clock=time.monotonic,
            failed=_raise,
            follow=service.follow,
        )

    def get(self, board: str) -> Board:
        """Return the definition of a board."""
        return self._lb.sync.get(board)

    def events(
        self,
        board: str,
        window: str | None,
        limit: int,
        member: str | None,
        by: str | None = None,
        labels: Mapping[str, str] | None = None,
        to_rank: int | None = None,
    ) -> Iterator[feed.StreamEvent]:
        """Yield the events of a feed.

        Raises the errors of reading the list, such as UnknownBoard after the board was deleted.
        """
        scope = tuple(sorted((labels or {}).items()))
        what = WatchedList(board, window, limit, _INTERVAL_MS, member, by, scope, to_rank)
        while True:
            frames = self._service.run(self._hub.watch(what, None))
            for event in feed.events(self._lines(frames)):
                if event.kind == "end":
                    break
                yield event

    def _lines(self, frames: AsyncGenerator[bytes, None]) -> Iterable[bytes]:
        while (content := self._service.run(_next(frames))) is not None:
            yield from content.split(b"\n")[:-1]


@contextmanager
def followed(url: str) -> Iterator[Followed]:
    """Open the boards of an index server until the end of the block."""
    service = config.direct_beside(url, create=False)
    try:
        yield Followed(service)
    finally:
        service.close()


async def _verbs(service: ThreadedStore) -> AsyncLeaderboards:
    return AsyncLeaderboards(service)


async def _next(frames: AsyncGenerator[bytes, None]) -> bytes | None:
    return await anext(frames, None)


def _raise(error: BaseException) -> Any:
    raise error
