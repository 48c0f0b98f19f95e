"""The errors of sinks, of their targets, and of their positions in the changes."""

from . import Conflict, InvalidInput, Unavailable


class InvalidTarget(InvalidInput):
    """The address or an option of a sink's target is not valid."""

    code = "invalid_target"
    advice = (
        "give the target as postgresql://…, mysql://…, sqlite:///FILE, redis://HOST/0/KEY, "
        "nats://HOST/SUBJECT, https://…, a file or - for standard output"
    )


class InvalidMapping(InvalidInput):
    """The mapping of fields is not well-formed."""

    code = "invalid_mapping"
    advice = "write NAME=FIELD,NAME=FIELD, as in UserId=member,Score=score; see docs/sinks.md"


class MissingDriver(InvalidInput):
    """The client package for a target is not installed."""

    code = "missing_driver"
    advice = "in a checkout of laurels run pip install '.[ledger,nats]'"


class TargetUnavailable(Unavailable):
    """The target does not answer at present; nothing is lost, and the sink tries again."""

    code = "target_unavailable"
    advice = "check that the target runs; the sink continues by itself"

    def __init__(self, what: str, wait_seconds: float = 0.0) -> None:
        super().__init__(what)
        self.wait_seconds = wait_seconds
        """The delay before the next attempt that the target requests, in seconds."""


class TargetRefused(Conflict):
    """The target refuses a change, and would refuse the same change again."""

    code = "target_refused"
    advice = (
        "check the reason that the target gave; parked changes can be sent again with `laurels "
        "sink resend`"
    )


class SinkOvertaken(Conflict):
    """Another runner of the same sink has moved its position."""

    code = "sink_overtaken"
    advice = "run only one process for each sink; the other process continues"


class SinkBehind(Conflict):
    """The changes after a sink's position are no longer kept, or the board was created again."""

    code = "sink_behind"
    advice = (
        "`laurels sink reset NAME --initial` sends every current entry and then continues; "
        "`--now` skips the missed changes"
    )


class LedgerTaken(Conflict):
    """Another sink already writes this board to the ledger."""

    code = "ledger_taken"
    advice = "run one sink per ledger, or give each sink its own ?prefix="


class LedgerTooNew(Conflict):
    """The tables of the ledger were created by a newer version of laurels."""

    code = "ledger_too_new"
    advice = "upgrade laurels, or use another ?prefix="
