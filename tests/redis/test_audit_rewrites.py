"""Several processes rewrite the audit log on an index server at once, to erase members from it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import closing
from typing import Any
from unittest.mock import patch

import pytest

import laurels
from laurels.stores.redis.index.audit import RedisAudit
from laurels.wire.audit_entry import AuditEntry
from tests.internals import remote

from .servers import Server

MEMBERS = ("zoe", "yan", "ann")
ENTRIES = 1_300  # several calls write them


@pytest.fixture
def lb(server: Server) -> Iterator[laurels.Leaderboards]:
    server.call("FLUSHALL")
    with closing(laurels.open(server.url)) as opened:
        remote(opened).audit_log.add(
            [
                AuditEntry(at_ms=i, by="test", verb="hide", request={"member": MEMBERS[i % 3]})
                for i in range(ENTRIES)
            ]
        )
        yield opened


def audit_of(lb: laurels.Leaderboards) -> RedisAudit:
    audit = remote(lb)._audit
    assert audit is not None
    return audit


def entries(lb: laurels.Leaderboards) -> list[AuditEntry]:
    """Return all entries, the newest first."""
    return [
        *(first := list(lb.audit(limit=1_000))),
        *lb.audit(limit=1_000, before=first[-1].id),
    ]


def times(lb: laurels.Leaderboards) -> list[int]:
    """Return the times of all entries in their order, which are 0, 1, 2 and so on."""
    return [entry.at_ms for entry in reversed(entries(lb))]


def test_one_erasure_by_several_processes_at_once(lb: laurels.Leaderboards, server: Server) -> None:
    async def erase() -> list[int]:
        return await asyncio.gather(*(audit_of(lb).erase("zoe", "erased-z") for _ in range(3)))

    changed = remote(lb).run(erase())
    assert sorted(changed)[-1] == len(range(0, ENTRIES, 3))
    assert times(lb) == list(range(ENTRIES))
    assert "zoe" not in str(entries(lb))
    assert [key for key in server.call("KEYS", "*:audit:*") if b"rewrites" not in key] == []


def test_a_process_that_pauses_while_others_erase_somebody_else(
    lb: laurels.Leaderboards, server: Server
) -> None:
    with closing(laurels.open(server.url)) as other:
        audit, rewrite, calls = audit_of(lb), audit_of(lb)._rewrite, 0

        async def paused(target: str, entries: Any, *rest: object) -> bool:
            nonlocal calls
            calls += 1
            if calls == 2:
                await asyncio.to_thread(
                    lambda: remote(other).run(audit_of(other).erase("yan", "erased-y"))
                )
            return await rewrite(target, entries, *rest)

        with patch.object(audit, "_rewrite", paused):
            remote(lb).run(audit.erase("zoe", "erased-z"))
    text = str(entries(lb))
    assert "zoe" not in text
    assert "yan" not in text
    assert times(lb) == list(range(ENTRIES))


def test_the_new_stream_of_a_process_that_pauses_has_expired(
    lb: laurels.Leaderboards, server: Server
) -> None:
    audit, rewrite, calls = audit_of(lb), audit_of(lb)._rewrite, 0

    async def expired(target: str, entries: Any, *rest: object) -> bool:
        nonlocal calls
        calls += 1
        if calls == 2:
            assert server.call("TTL", target) > 0
            server.call("DEL", target)
        return await rewrite(target, entries, *rest)

    with patch.object(audit, "_rewrite", expired):
        assert remote(lb).run(audit.erase("zoe", "erased-z")) == len(range(0, ENTRIES, 3))
    assert times(lb) == list(range(ENTRIES))
    assert server.call("TTL", server.call("KEYS", "*:audit")[0]) == -1
