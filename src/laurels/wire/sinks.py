"""The state of the sinks that a service runs, in the form of its answers."""

from msgspec import field

from laurels.model.answer import Answer

from .flow_wait import FlowWait


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
    wait: FlowWait | None = None
    boards: dict[str, FlowWait] = field(default_factory=dict)
    elsewhere: bool = False
