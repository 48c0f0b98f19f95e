"""The state of the sources that a service runs, in the form of its answers."""

from laurels.model.answer import Answer

from .flow_wait import FlowWait


class SourceReport(Answer, frozen=True):
    """The state of a source that the service runs: its position in the stream, and the number of
    messages since the start of the service by outcome. `unknown` are messages for boards that do
    not exist, `foreign` those for boards that the source does not feed, `repeated` those that had
    been counted before. `lag_seconds` is the time since the stream took the newest counted message,
    or since the source last reached the end of the stream; null if the stream has no times. `wait`
    is the reason why the source cannot read or count, null while it can; `failing_seconds` is the
    time for which every attempt has failed. If `elsewhere` is true, another process of the service
    runs the source and has not reported its state."""

    name: str
    position: str = ""
    applied: int = 0
    unchanged: int = 0
    duplicates: int = 0
    rejected: int = 0
    foreign: int = 0
    unknown: int = 0
    repeated: int = 0
    lag_seconds: float | None = None
    wait: FlowWait | None = None
    failing_seconds: float = 0.0
    elsewhere: bool = False


SOURCE_OUTCOMES = (
    "applied",
    "unchanged",
    "duplicates",
    "rejected",
    "foreign",
    "unknown",
    "repeated",
)
"""The possible outcomes of a message, which are fields of a report."""
