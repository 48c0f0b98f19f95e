"""Sends a page to the target of a sink, or parks what the target refuses permanently."""

from collections import deque
from collections.abc import Sequence
from functools import partial

from msgspec.structs import replace

from laurels.errors import LaurelsError
from laurels.errors.sinks import TargetRefused
from laurels.flows.attempts import FlowAttempts
from laurels.flows.retries import Backoff

from .context import SinkContext, Verification
from .target import SinkPage

MAX_PARTS = 40
"""The maximum number of requests that look for the refused payouts of a page."""


async def send_or_park(context: SinkContext, page: SinkPage, attempts: FlowAttempts) -> bool:
    """Send a page. If the target refuses it as often as the options allow, park it and return
    False. Raises TargetRefused if it cannot be parked."""
    error = await _send(context, page, attempts, _unverified)
    if error is not None:
        await _park(context, page, error)
    return error is None


async def send_payouts(
    context: SinkContext, page: SinkPage, attempts: FlowAttempts, verify: Verification
) -> int:
    """Send a page of payouts; return how many were parked. `verify` is called before each attempt.
    A page that was refused as often as the options allow is divided, so that the other payouts are
    not parked with a payout that the target cannot read. Raises TargetRefused if the sink cannot
    park."""
    error = await _send(context, page, attempts, verify)
    parts = deque(() if error is None else _halves(page))
    parked = requests = 0
    while parts:
        part = parts.popleft()
        if requests < MAX_PARTS and part is not page:
            requests += 1
            error = await _attempt(context, part, attempts, verify)
        if error is None:
            continue
        if len(part.changes) == 1 or requests >= MAX_PARTS:
            await context.retry(partial(verify, part), attempts)
            await _park(context, part, error)
            parked += len(part.changes)
        else:
            parts.extendleft(reversed(_halves(part)))
    return parked


async def _unverified(_: SinkPage) -> None:
    return None


def _halves(page: SinkPage) -> Sequence[SinkPage]:
    """Return the two halves of a page, or the page itself if it has only one message."""
    half = len(page.changes) // 2
    if not half:
        return [page]
    return [replace(page, changes=part) for part in (page.changes[:half], page.changes[half:])]


async def _attempt(
    context: SinkContext, page: SinkPage, attempts: FlowAttempts, verify: Verification
) -> TargetRefused | None:
    """Send a page; return the error if the target refuses it, otherwise None."""
    try:
        await context.retry(lambda: context.deliver(page, verify), attempts)
    except TargetRefused as error:
        return error
    return None


async def _send(
    context: SinkContext, page: SinkPage, attempts: FlowAttempts, verify: Verification
) -> TargetRefused | None:
    """Send a page up to `tries` times; return the last error if the target refuses it each time,
    otherwise None. Raises TargetRefused if the sink cannot park."""

    def record(error: LaurelsError, seconds: float) -> None:
        attempts.fail(error, context.now_ms(), seconds)

    backoff = Backoff(context.sleep)
    while (error := await _attempt(context, page, attempts, verify)) is not None:
        if context.target.keeps_positions or context.parking is None:
            raise error
        if backoff.failures + 1 >= context.options.tries:
            return error
        await backoff.wait(on_wait=partial(record, error))
    return None


async def _park(context: SinkContext, page: SinkPage, error: TargetRefused) -> None:
    assert context.parking is not None, "a sink without a file for parked pages raises the error"
    await context.parking.park(page, error)
    what = "changes" if page.payouts is None else "payouts"
    context.report(f"{page.board}: parked {len(page.changes)} {what}: {error}")
