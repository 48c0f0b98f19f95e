"""The sinks that the service runs."""

from collections.abc import Mapping

from msgspec.structs import replace

from laurels.flows.sinks.figures import SinkFigures
from laurels.server.process.settings import Settings
from laurels.server.requests.context import RequestContext
from laurels.server.routing.route import NoQuery, Routes
from laurels.wire.flow_wait import FlowWait
from laurels.wire.redaction import without_paths
from laurels.wire.sinks import SinkReport

ROUTES = Routes()


@ROUTES.query("GET", "/v1/sinks", returns=list[SinkReport])
async def sinks(context: RequestContext, _: NoQuery) -> object:
    """The state of the sinks in the service's settings: what each sink has sent, and why a sink
    cannot send. This needs a key that is not limited to some boards."""
    context.caller.ensure_unlimited()
    metrics = context.server.metrics
    return reports_of(context.server.settings, metrics.sinks, metrics.now_ms())


def reports_of(
    settings: Settings, running: Mapping[str, SinkFigures], now_ms: int
) -> list[SinkReport]:
    """Return the state of each sink in the settings. A sink that another process runs has
    `elsewhere` set."""
    return [
        _report_without_paths(running[name].report(name, now_ms))
        if name in running
        else SinkReport(name, elsewhere=True)
        for name in settings.sinks
    ]


def _report_without_paths(report: SinkReport) -> SinkReport:
    """Return a report in which error messages do not contain the paths of the server's folders."""
    boards = {board: _without_paths(wait) for board, wait in report.boards.items()}
    wait = None if report.wait is None else _without_paths(report.wait)
    return replace(report, wait=wait, boards=boards)


def _without_paths(wait: FlowWait) -> FlowWait:
    return replace(wait, error=without_paths(wait.error))
