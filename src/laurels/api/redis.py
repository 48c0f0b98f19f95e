"""The verbs over a direct deployment: those of any other, carried out on its loop."""

import asyncio
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, TypeVar, Unpack

from laurels.core.queries import QueryContext
from laurels.core.question import Question
from laurels.model.board import Board
from laurels.stores.intake.accept import How, batch_list
from laurels.stores.intake.submission import Submission
from laurels.stores.redis.store import Direct, is_newer

from .aio import AsyncLeaderboards
from .leaderboards import Leaderboards

_RARE: tuple[Any, ...] = (Leaderboards.position, Leaderboards.stats)
"""Verbs that read something else than rankings; they are carried out from a thread."""

T = TypeVar("T")


class Asked(NamedTuple):
    """A question on its way: the board, and what makes it of the board as it is."""

    board: str
    asked: Callable[[QueryContext], Question[Any]]


def _described(board: str, asked: Callable[[QueryContext], Question[Any]]) -> Any:
    return Asked(board, asked)


class _Describing(Leaderboards):
    """Verbs that answer nothing, but say what they would ask."""

    def __init__(self) -> None:
        self._ask = _described
        self._at_hand = lambda *_: None


class AsyncDirectLeaderboards(AsyncLeaderboards):
    """Boards on an index server, for event loops. Every verb of `AsyncLeaderboards`."""

    _describing = _Describing()

    def __init__(self, service: Direct) -> None:
        super().__init__(service)
        self._direct = service

    async def _asked(
        self, verb: Callable[..., T], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> T:
        if verb in _RARE:
            return await asyncio.to_thread(verb, self.sync, *args, **kwargs)
        asked: Any = verb(self._describing, *args, **kwargs)
        answer: T = await self._direct.ask_async(*asked)
        return answer

    async def get(self, name: str) -> Board:
        return (await self._direct.newest_async(name)).board

    async def boards(self) -> list[Board]:
        return [state.board for state in await self._direct.boards_async()]

    async def _submission(
        self, board: str, events: Iterable[Any], window: str | None, **how: Unpack[How]
    ) -> Submission:
        given = batch_list(events)
        if is_newer(await self._direct.know(board), given, window, how):
            await self._direct.newest_async(board)
        return await super()._submission(board, given, window, **how)

    async def set_data(self, board: str, member: str, data: Any) -> None:
        await self._direct.know(board)
        await super().set_data(board, member, data)

    async def remove(self, board: str, member: str) -> bool:
        await self._direct.know(board)
        return await super().remove(board, member)
