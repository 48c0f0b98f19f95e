"""Questions about one board, each answered of one state of it."""

from collections.abc import Callable
from functools import partial
from typing import TypeVar

from laurels.boards import BoardState
from laurels.plan import next_boundary
from laurels.queries import Moment, Question

from .present import Present, opened_as
from .retry import read_again

T = TypeVar("T")


class Questions:
    """Answers what is asked, step by step, from the index."""

    def __init__(self, present: Present) -> None:
        self._present = present

    async def ask(self, board: str, asked: Callable[[Moment], Question[T]]) -> T:
        """The answer to a question about a board."""

        async def look(state: BoardState) -> T:
            now_ms = self._present.now()
            return await self._answer(state, asked(Moment(state, now_ms)), now_ms)

        return await self._present.again(board, look)

    async def _answer(self, state: BoardState, question: Question[T], now_ms: int) -> T:
        opened, due_ms = opened_as(state), next_boundary(state.rules, now_ms)
        while True:
            reading = partial(self._present.index.read, opened, question.asks)
            read = await read_again(partial(reading, now_ms=now_ms, due_ms=due_ms))
            answer = question.answer(read.found, read.offset)
            if not isinstance(answer, Question):
                return answer
            question = answer
