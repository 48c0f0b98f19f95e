"""The state of the sinks that a service runs, in the form of its answers."""

from msgspec import field

from laurels.model.answer import Answer

from .flow_wait import FlowWait


class SinkReport(Answer, frozen=True):
    """The state of a sink that the service runs: the numbers of changes that were delivered and
    parked since its start, the number of changes that wait, and the age of the oldest waiting
    change. `wait` is the reason why the sink sends nothing at all, null if there is none. `boards`
    has, for at most 1,000 boards, the reason why the sink sends none of the board's changes.
    `failing_seconds` is how long all attempts of the sink, or of one of its boards, have failed.
    `used` is the largest fraction of a board's retention that waiting changes take up, over all
    boards. `lost_boards` is the number of boards that removed changes before they were sent.
    `restarts` counts how often all current entries of a board were sent again. If `elsewhere` is
    true, another process of the service runs the sink, and has not reported its state.

    The fields of payouts are about the due payouts of all boards: how many were delivered and
    parked, how many wait, for how many seconds the oldest of these has been due, and why no payouts
    are sent."""

    name: str
    delivered: int = 0
    parked: int = 0
    waiting: int = 0
    lag_seconds: float = 0.0
    wait: FlowWait | None = None
    boards: dict[str, FlowWait] = field(default_factory=dict)
    elsewhere: bool = False
    failing_seconds: float = 0.0
    used: float = 0.0
    lost_boards: int = 0
    restarts: int = 0
    payouts_delivered: int = 0
    payouts_parked: int = 0
    payouts_waiting: int = 0
    payouts_lag_seconds: float = 0.0
    payouts_wait: FlowWait | None = None
