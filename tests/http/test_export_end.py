"""An export that cannot continue gives the reason in its last line."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import msgspec

import laurels
from laurels.core.query import ListQuery
from laurels.server.auth.caller import ANYBODY
from laurels.server.live.hub import Hub
from laurels.server.requests.context import RequestContext, Streamed
from laurels.server.verbs.streams import EXPORT_PAGE, export
from laurels.wire.queries import parameters_of
from tests.calendar_by_scanning import HOUR, utc_ms
from tests.internals import local

CLOCK = laurels.ManualClock(utc_ms(datetime(2026, 11, 20, 15, 30, tzinfo=UTC)))


def test_the_end_of_a_step_ends_an_export_with_the_reason() -> None:
    async def main() -> list[bytes]:
        async with laurels.open_async("memory:", clock=CLOCK) as lb:
            await lb.create(laurels.Board("b", windows=["rolling:3h/1h"]))
            await lb.submit_many("b", [(f"m{i}", i) for i in range(2 * EXPORT_PAGE)])
            store = local(lb)
            hub = Hub(lb, store.change_token, "e", lambda: 0.0, lambda _: None)
            server: Any = SimpleNamespace(store=store, hub=hub)
            streamed = await export(
                RequestContext(server, ANYBODY, "b"), parameters_of(ListQuery)()
            )
            assert isinstance(streamed, Streamed)
            first = await anext(streamed.parts)
            CLOCK.advance(HOUR)
            return [first, *[part async for part in streamed.parts]]

    first, *rest = asyncio.run(main())
    assert len(first.splitlines()) == EXPORT_PAGE
    (last,) = rest
    assert msgspec.json.decode(last)["code"] == "period_expired"
