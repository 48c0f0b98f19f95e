"""The reader of the due payouts of a sink: sends them to the target in the order in which they were
due.

The store has one list of the due payouts of all boards, which only grows at its end, and a position
of the sink in this list. The position belongs to the patterns of the sink's boards: if the sink is
given other patterns, it has another position. The position moves after the target has stored a
page, so a payout may arrive twice; the target can detect this by the payout's id.
"""

from contextlib import suppress
from functools import partial

from laurels.core.changes.payout_blocks import change_of
from laurels.core.due_payouts import MAX_PAGE
from laurels.core.payouts import PayoutPage
from laurels.errors import LaurelsError, PositionMoved
from laurels.errors.payouts import PayoutsDiverged
from laurels.errors.service import Forbidden, NoSuchPath
from laurels.errors.sinks import SinkOvertaken, TargetRefused

from .context import SinkContext
from .options import SinkOptions
from .sending import send_payouts
from .target import SinkPage

MIN_POLL_SECONDS, MAX_POLL_SECONDS = 0.05, 1.0
RETRY_SECONDS = 60.0
"""The delay after which a sink asks again for payouts that its key may not read."""
REPORT_MS = 10_000
"""The time between two reports of the position to the store, if the target stores the position, and
between two counts of the payouts that wait."""


class _PageOutdated(Exception):  # noqa: N818 (names the state)
    """The error that is raised if the store no longer lists a payout of a page."""


class PayoutReader:
    """Reads the due payouts of a store and sends them to the target."""

    def __init__(self, context: SinkContext) -> None:
        self._context = context
        self._options = context.options
        self._target = context.target
        self._metrics = context.metrics.payouts
        self._stored: str | None = None
        """The position that is stored in the target or in the store."""
        self._after: str | None = None
        self._reported: str | None = None
        self._reported_ms = self._measured_ms = 0

    async def run(self) -> None:
        """Send payouts until cancelled; with `until_end`, until all have been sent. If the key may
        not read payouts or the target refuses them, a sink that also sends changes goes on sending
        changes, and this method tries again from time to time."""
        while True:
            try:
                await self._send()
                return
            except (Forbidden, NoSuchPath, TargetRefused) as error:
                if not self._options.sends_changes:
                    raise
                if str(self._context.payouts_error) != str(error):
                    self._context.report(f"payouts are not sent: {error}")
                self._context.payouts_error = error
                seconds = None if self._options.until_end else RETRY_SECONDS
                self._metrics.fail(error, self._context.now_ms(), seconds)
                if self._options.until_end:
                    return
                await self._context.sleep(RETRY_SECONDS)

    async def _send(self) -> None:
        await self._begin()
        seconds = MIN_POLL_SECONDS
        while True:
            page = await self._read()
            self._context.payouts_error = None
            if page.payouts:
                try:
                    await self._deliver(page)
                except (_PageOutdated, PayoutsDiverged):
                    await self._find_position()  # an attempt may have succeeded without an answer
                    continue
                seconds = MIN_POLL_SECONDS
            self._after = page.cursor
            if page.next is not None:
                continue
            self._metrics.arrive(0, None)
            await self._report_position()
            if self._options.until_end:
                return
            await self._context.sleep(seconds)
            seconds = min(MAX_POLL_SECONDS, seconds * 2)

    async def measure_in_store(self) -> None:
        """Count the payouts that wait, by the position that the store has."""
        with suppress(LaurelsError):
            self._after = await stored_position(self._context, self._options)
            await self._measure()

    async def _begin(self) -> None:
        """Find the position from which payouts are sent, and count those that wait."""
        self._reported = await self._context.retry(
            lambda: stored_position(self._context, self._options), self._metrics
        )
        self._after = self._reported
        await self._measure()  # measured before the target is asked, since the target may be down
        await self._find_position()

    async def _find_position(self) -> None:
        self._stored = await self._context.retry(
            lambda: payout_position(self._context, self._options), self._metrics
        )
        self._after = self._stored

    async def _read(self) -> PayoutPage:
        """Return the payouts after the position. If the store does not know the position, begin
        again with the first payout."""
        try:
            return await self._context.retry(self._read_next, self._metrics)
        except PayoutsDiverged as error:
            self._context.report(f"{error.what}; sending all payouts again, with the same ids")
            self._after = None
            return await self._context.retry(self._read_next, self._metrics)

    async def _read_next(self) -> PayoutPage:
        return await self._read_page(self._after)

    async def _read_page(self, after: str | None) -> PayoutPage:
        return await self._context.boards.due_payouts(
            boards=self._options.boards,
            after=after,
            limit=min(MAX_PAGE, self._target.limit),
        )

    async def _deliver(self, page: PayoutPage) -> None:
        """Send a page, then move the position."""
        assert page.cursor is not None, "a page with payouts has a cursor"
        self._metrics.arrive(max(self._metrics.waiting, len(page)), page[0].due_ms)
        if self._context.now_ms() - self._measured_ms >= REPORT_MS:
            await self._measure()
        messages = [change_of(payout, payout.id) for payout in page]
        name = target_name(self._options)
        sent = SinkPage(name, messages, self._stored, page.cursor, payouts=page.payouts)
        verify = partial(self._ensure_listed, self._after)
        parked = await send_payouts(self._context, sent, self._metrics, verify)
        self._metrics.parked += parked
        self._metrics.delivered += len(page) - parked
        if not self._target.keeps_positions:
            await self._move(self._stored, page.cursor)
        self._stored = page.cursor
        self._metrics.arrive(max(0, self._metrics.waiting - len(page)), page[-1].due_ms)
        if page.next is not None:
            await self._report_position()

    async def _ensure_listed(self, after: str | None, page: SinkPage) -> None:
        """Raise _PageOutdated if the store no longer lists a payout of a page that was read after a
        cursor: its member was erased meanwhile, perhaps while the target was down."""
        listed = {payout.id for payout in await self._read_page(after)}
        if not listed.issuperset([change.id for change in page.changes]):
            raise _PageOutdated

    async def _measure(self) -> None:
        """Count the payouts that wait."""
        self._measured_ms = self._context.now_ms()
        with suppress(LaurelsError):  # the read of the next page gets the same error and handles it
            waiting = await self._context.boards.waiting_payouts(
                boards=self._options.boards, after=self._after
            )
            oldest_ms = min([each.oldest_ms for each in waiting], default=None)
            self._metrics.arrive(sum([each.payouts for each in waiting]), oldest_ms)

    async def _move(self, before: str | None, position: str) -> None:
        """Move the position in the store. Raises SinkOvertaken if it was moved by another
        runner."""
        reader = reader_name(self._options)

        async def move() -> None:
            try:
                await self._context.boards.move_payout_position(reader, before, position)
            except PositionMoved as error:
                stored = await stored_position(self._context, self._options)
                if stored != position:  # if they are equal, an earlier attempt has moved it
                    raise SinkOvertaken(f"payouts: {error.what}") from error

        await self._context.retry(move, self._metrics)

    async def _report_position(self) -> None:
        """If the target stores the position, report it to the store from time to time."""
        now_ms = self._context.now_ms()
        is_due = self._options.until_end or now_ms - self._reported_ms >= REPORT_MS
        if not self._target.keeps_positions or self._reported == self._stored or not is_due:
            return
        self._reported_ms = now_ms
        try:
            await self._context.boards.move_payout_position(
                reader_name(self._options), self._reported, self._stored
            )
            self._reported = self._stored
        except LaurelsError as error:
            self._context.report(f"payouts: the position was not reported to the store: {error}")
            with suppress(LaurelsError):
                self._reported = await stored_position(self._context, self._options)


def selection_text(options: SinkOptions) -> str:
    """Return the patterns of a sink's boards as text, empty for all boards. The text is a part of
    the name of the sink's position among the payouts, so each selection has its own position."""
    return "" if options.boards is None else ",".join(sorted(set(options.boards)))


def reader_name(options: SinkOptions) -> str:
    """Return the name under which the store keeps the position of a sink among the payouts."""
    return f"{options.source} {selection_text(options)}".rstrip()


def target_name(options: SinkOptions) -> str:
    """Return the name under which a target keeps the position of a sink among the payouts. It keeps
    the position in a board under the board's name; no board has the name returned here."""
    return f"payouts:{selection_text(options)}"


async def stored_position(context: SinkContext, options: SinkOptions) -> str | None:
    """Return the position among the payouts that the store has, None if it has none."""
    return (await context.boards.payout_positions()).get(reader_name(options))


async def payout_position(context: SinkContext, options: SinkOptions) -> str | None:
    """Return the position of a sink among the due payouts; None at the beginning."""
    if context.target.keeps_positions:
        return await context.position_in_target(target_name(options))
    return await stored_position(context, options)
