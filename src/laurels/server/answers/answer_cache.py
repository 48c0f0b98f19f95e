"""A cache of encoded answers, each valid until its board changes.

An answer depends only on the board, the time and the request. The *change token* of a board (see
`Service.change_token`) changes whenever the board has changed or a period has ended. The token is
read before the answer is computed, so a cached answer is never older than its token.
"""

from collections import OrderedDict
from typing import Any

MOST = 1_000
MOST_BYTES = 32 << 20
LARGE = 256 << 10

RequestKey = tuple[str, str, str | None]
"""The path, the query string and the Accept header of a request."""
ChangeToken = tuple[int, int, int, bool]


class AnswerCache:
    """The most recent answers, each with the change token for which it was computed. The cache has
    at most `MOST` answers. Together with their requests, they have at most `MOST_BYTES` bytes."""

    def __init__(self) -> None:
        self._answers: OrderedDict[RequestKey, tuple[ChangeToken, Any, int]] = OrderedDict()
        self.nbytes = 0

    def find(self, request: RequestKey, change_token: ChangeToken) -> Any:
        """Return the cached answer, or None if there is no answer with this token.

        Also return None for two kinds of boards: a board in which a period has ended, since it has
        to be advanced first, and a board with decay, since its scores change all the time.
        """
        cached = self._answers.get(request)
        return None if cached is None or cached[0] != change_token or change_token[3] else cached[1]

    def keep(
        self, request: RequestKey, change_token: ChangeToken, answer: Any, nbytes: int
    ) -> None:
        """Cache an answer. The token must have been read before the answer was computed."""
        nbytes += sum(len(part) for part in request if part is not None)
        if nbytes > LARGE:
            return
        if (replaced := self._answers.pop(request, None)) is not None:
            self.nbytes -= replaced[2]
        self._answers[request] = change_token, answer, nbytes
        self.nbytes += nbytes
        while len(self._answers) > MOST or self.nbytes > MOST_BYTES:
            _, (_, _, freed) = self._answers.popitem(last=False)
            self.nbytes -= freed
