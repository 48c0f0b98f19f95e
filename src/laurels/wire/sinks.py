"""The state of the sinks that a service runs, in the form of its answers."""

from msgspec import field

from laurels.model.answer import Answer


class SinkWait(Answer, frozen=True):
    """Why a sink does not send. `error` and `code` are of the last attempt, `attempts` counts the
    attempts that have failed since `since_ms`, all of them. `next_ms` is the time of the next
    attempt, null if an operator has to act first."""

    code: str
    error: str
    since_ms: int
    attempts: int
    next_ms: int | None = None


class SinkReport(Answer, frozen=True):
    """The state of a sink that the service runs: the numbers of changes delivered and parked since
    its start and of those waiting, and the age of the oldest of these. `wait` is the reason why the
    sink sends nothing at all, `boards` has the reasons for single boards, at most 1,000; both are
    empty while it sends. With `elsewhere` another process of the service runs the sink, and only
    that process has the other fields."""

    name: str
    delivered: int = 0
    parked: int = 0
    waiting: int = 0
    lag_seconds: float = 0.0
    wait: SinkWait | None = None
    boards: dict[str, SinkWait] = field(default_factory=dict)
    elsewhere: bool = False
