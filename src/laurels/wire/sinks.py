"""The state of the sinks that a service runs, in the form of its answers."""

from msgspec import field

from laurels.model.answer import Answer


class SinkWait(Answer, frozen=True):
    """The reason why a sink does not send.

    `error` and `code` are from the last attempt. `attempts` is the number of attempts since
    `since_ms`, all of which have failed. `next_ms` is the time of the next attempt, null if an
    operator has to act first.
    """

    code: str
    error: str
    since_ms: int
    attempts: int
    next_ms: int | None = None


class SinkReport(Answer, frozen=True):
    """The state of a sink that the service runs: the numbers of changes that were delivered and
    parked since its start, the number of changes that wait, and the age of the oldest waiting
    change. `wait` is the reason why the sink sends nothing at all. `boards` has the reasons why
    single boards wait, for at most 1,000 boards. Both are empty while the sink sends. With
    `elsewhere` another process of the service runs the sink, and only that process has the other
    fields."""

    name: str
    delivered: int = 0
    parked: int = 0
    waiting: int = 0
    lag_seconds: float = 0.0
    wait: SinkWait | None = None
    boards: dict[str, SinkWait] = field(default_factory=dict)
    elsewhere: bool = False
