"""Answers that many ask for: kept, as bytes, until the board changes.

An answer is a function of the board, the time and the question. The *pulse* of a board (see
`Service.pulse`) is another one when the board has changed or a period has ended; it is read before
the answer is made, so an answer that is kept is never older than its pulse says.
"""

from collections import OrderedDict
from typing import Any

MOST = 1_000
LARGE = 256 << 10

Question = tuple[str, str, str | None]
"""Path, query, accept."""
Pulse = tuple[int, int, int, bool]


class AnswerCache:
    """The newest answers, each with the pulse it was made at."""

    def __init__(self) -> None:
        self._answers: OrderedDict[Question, tuple[Pulse, Any]] = OrderedDict()

    def find(self, question: Question, pulse: Pulse) -> Any:
        """The answer, None where there is none of this pulse. A board whose period has ended has
        to be brought to the present, and faded scores are never as they were: nothing is found."""
        found = self._answers.get(question)
        return None if found is None or found[0] != pulse or pulse[3] else found[1]

    def keep(self, question: Question, pulse: Pulse, answer: Any, nbytes: int) -> None:
        """Keeps an answer that was made after its pulse was read."""
        if nbytes > LARGE:
            return
        self._answers[question] = pulse, answer
        self._answers.move_to_end(question)
        if len(self._answers) > MOST:
            self._answers.popitem(last=False)
