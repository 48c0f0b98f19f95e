"""The verbs over a direct deployment: those of any other, carried out on its loop."""

import asyncio
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, TypeVar, Unpack, cast

from laurels.accept import How, batch_list
from laurels.aio import AsyncLeaderboards
from laurels.board import Board
from laurels.leaderboards import Leaderboards
from laurels.queries import Moment
from laurels.question import Question
from laurels.submission import Submission

from .service import Direct, is_newer

_RARE: tuple[Any, ...] = (Leaderboards.position, Leaderboards.stats)
"""Verbs that read something else than rankings; they are carried out from a thread."""

T = TypeVar("T")


class Asked(NamedTuple):
    """A question on its way: the board, and what makes it of the board as it is."""

    board: str
    asked: Callable[[Moment], Question[Any]]


class _Describing(Leaderboards):
    """Verbs that answer nothing, but say what they would ask."""

    def __init__(self) -> None:
        self._ask = Asked  # type: ignore[assignment]
        self._at_hand = lambda *_: None


class DirectLeaderboards(Leaderboards):
    """Boards on an index server. Every verb of `Leaderboards`."""

    _service: Direct  # type: ignore[assignment]

    def get(self, name: str) -> Board:
        return self._service.newest(name).board


class AsyncDirectLeaderboards(AsyncLeaderboards):
    """Boards on an index server, for event loops. Every verb of `AsyncLeaderboards`."""

    _service: Direct  # type: ignore[assignment]
    _describing = _Describing()

    def __init__(self, service: Direct) -> None:
        super().__init__(cast(Any, service))
        self.sync = DirectLeaderboards(cast(Any, service))

    async def _asked(
        self, verb: Callable[..., T], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> T:
        found: Any = args[0] if args else kwargs.get("name")
        if verb is Leaderboards.get:
            found = (await self._service.newest_async(found)).board
            return cast(T, found)
        if verb is Leaderboards.boards:
            found = [state.board for state in await self._service.boards_async()]
            return cast(T, found)
        if verb in _RARE:
            return await asyncio.to_thread(verb, self.sync, *args, **kwargs)
        asked: Any = verb(self._describing, *args, **kwargs)
        answer: T = await self._service.ask_async(*asked)
        return answer

    async def _submission(
        self, board: str, events: Iterable[Any], window: str | None, **how: Unpack[How]
    ) -> Submission:
        given = batch_list(events)
        if is_newer(await self._service.know(board), given, window, how):
            await self._service.newest_async(board)
        return await super()._submission(board, given, window, **how)

    async def set_data(self, board: str, member: str, data: Any) -> None:
        await self._service.know(board)
        await super().set_data(board, member, data)

    async def remove(self, board: str, member: str) -> bool:
        await self._service.know(board)
        return await super().remove(board, member)
