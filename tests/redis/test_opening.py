"""Boards on an index server are opened and closed, by threads, event loops and forked processes."""

from __future__ import annotations

import asyncio
import os
from typing import Any

import pytest

import laurels
from laurels import config, errors

from .servers import Server


def test_boards_are_opened_from_threads_and_event_loops(server: Server) -> None:
    async def main() -> int:
        async with laurels.open_async(server.url) as lb:
            return (await lb.top("b")).total

    with laurels.open(server.url) as lb:
        lb.create(laurels.Board("b"), exist_ok=True)
        lb.submit("b", "ann", 1)
    assert asyncio.run(main()) == 1
    with pytest.raises(errors.Closed):
        lb.top("b")


@pytest.mark.parametrize("settings", [{"log_keep": True}, {"log_keep": False}, {"clock": "wall"}])
def test_clock_settings_that_do_not_apply_are_refused(
    server: Server, settings: dict[str, Any]
) -> None:
    with pytest.raises(errors.InvalidClock):
        laurels.open(server.url, **settings)


def test_all_processes_use_one_clock(server: Server) -> None:
    url = f"{server.url}?prefix=clock:"
    laurels.open(url, clock="event").close()
    laurels.open(url).close()
    laurels.open(url, clock="event").close()
    with pytest.raises(errors.InvalidClock):
        laurels.open(url, clock="system")


def test_a_blocking_verb_is_refused_on_its_own_event_loop(server: Server) -> None:
    async def main() -> None:
        service = await config.direct_here(server.url, create=True)
        with pytest.raises(RuntimeError, match="await the verb"):
            service.stats()
        await asyncio.to_thread(service.close)

    asyncio.run(main())


def test_a_forked_child_gets_the_error_forked(server: Server) -> None:
    with laurels.open(server.url) as lb:
        child = os.fork()
        if child == 0:
            try:
                lb.top("b")
            except errors.Forked:
                os._exit(7)
            finally:
                os._exit(1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
        assert lb.boards() is not None


def test_keys_of_a_newer_version_are_refused(server: Server) -> None:
    url = f"{server.url}?prefix=format:"
    with pytest.raises(errors.UnknownBoard), laurels.open(url, create=False) as lb:
        lb.top("b")
    assert server.call("KEYS", "format:*") == []
    laurels.open(url).close()
    assert server.call("HGET", "format:{boards}:f", "format") == b"1"
    server.call("HSET", "format:{boards}:f", "format", "6")
    with pytest.raises(errors.FormatTooNew):
        laurels.open(url)
