"""The sinks and sources that the service runs."""

from laurels.server.requests.context import RequestContext
from laurels.server.routing.route import NoQuery, Routes
from laurels.wire.sinks import SinkReport
from laurels.wire.sources import SourceReport

ROUTES = Routes()


@ROUTES.query("GET", "/v1/sinks", returns=list[SinkReport])
async def sinks(context: RequestContext, _: NoQuery) -> object:
    """The state of the sinks in the service's settings: what each sink has sent and, if it cannot
    send, why. This needs a key that is not limited to some boards."""
    context.caller.ensure_unlimited()
    return context.server.metrics.flows().sinks


@ROUTES.query("GET", "/v1/sources", returns=list[SourceReport])
async def sources(context: RequestContext, _: NoQuery) -> object:
    """The state of the sources in the service's settings: what each source has counted and, if it
    cannot read or count, why. This needs a key that is not limited to some boards."""
    context.caller.ensure_unlimited()
    return context.server.metrics.flows().sources
