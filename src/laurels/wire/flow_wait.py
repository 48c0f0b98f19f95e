"""The reason why a sink or a source waits, in the form of answers."""

from laurels.model.answer import Answer


class FlowWait(Answer, frozen=True):
    """The reason why a sink does not send, or a source does not count.

    `error` and `code` are from the last attempt. `attempts` is the number of attempts since
    `since_ms`, all of which have failed. `next_ms` is the time of the next attempt, null if an
    operator has to act first.
    """

    code: str
    error: str
    since_ms: int
    attempts: int
    next_ms: int | None = None
