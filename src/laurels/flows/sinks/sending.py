"""Sends a page to the target of a sink, or parks it."""

from functools import partial

from laurels.errors import LaurelsError
from laurels.errors.sinks import TargetRefused
from laurels.flows.attempts import FlowAttempts
from laurels.flows.retries import Backoff

from .context import SinkContext
from .target import SinkPage


async def send_or_park(context: SinkContext, page: SinkPage, attempts: FlowAttempts) -> bool:
    """Send a page; return False if it was parked, since the target has refused it as often as the
    options say. Raises TargetRefused if it cannot be parked."""

    def record(error: LaurelsError, seconds: float) -> None:
        attempts.fail(error, context.now_ms(), seconds)

    backoff = Backoff(context.sleep)
    while True:
        try:
            await context.retry(lambda: context.deliver(page), attempts)
        except TargetRefused as error:
            if context.target.keeps_positions or context.parking is None:
                raise
            if backoff.failures + 1 < context.options.tries:
                await backoff.wait(on_wait=partial(record, error))
                continue
            await context.parking.park(page, error)
            context.report(f"{page.board}: parked {len(page.changes)} changes: {error}")
            return False
        return True
