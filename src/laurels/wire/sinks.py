"""The state of the sinks that a service runs, as its answers have it."""

from msgspec import field

from laurels.model.answer import Answer


class SinkWait(Answer, frozen=True):
    """Why a sink does not send: the last `error` and its `code`, the time since which every attempt
    failed, their number, and the time of the next one, null if an operator has to act first."""

    code: str
    error: str
    since_ms: int
    attempts: int
    next_ms: int | None = None


class SinkReport(Answer, frozen=True):
    """The state of a sink that the service runs: what it has delivered and parked since it was
    started, the changes that wait and the age of the oldest one. `wait` is the reason why it sends
    nothing, `boards` those of single boards, at most 1,000; both are empty while all is well. With
    `elsewhere` another process of the service runs the sink, and only that one has its state."""

    name: str
    delivered: int = 0
    parked: int = 0
    waiting: int = 0
    lag_seconds: float = 0.0
    wait: SinkWait | None = None
    boards: dict[str, SinkWait] = field(default_factory=dict)
    elsewhere: bool = False
