"""Compares rankings with the data they are derived from, and corrects them."""

from typing import Any

from laurels.core.ranking_key import RankingKey
from laurels.errors import CheckFailed
from laurels.stores.redis.remote import Opened
from laurels.stores.redis.sources import script_of

from .calls import BEGIN, END, SCRIPT_PARTS, ShardCalls
from .names import key_of, name_of, scoped_name, without_boundaries

_AUDIT = script_of("audit", *SCRIPT_PARTS)


class RankingAudit(ShardCalls):
    """The calls of the index that audit rankings and scopes."""

    async def audit(self, board: Opened, key: RankingKey, *, repair: bool) -> int:
        """Compare a ranking with the data it is derived from, and with `repair` correct it. Return
        the number of its entries. Raises CheckFailed, which names the first member that differs.

        In the layouts plain and packed, a calendar ranking is stored only once, as scores in a
        sorted set. So a wrong score is detected only if no event can produce it. See audit.lua for
        the repair of scores that are stored twice.
        """
        arguments: dict[str, Any] = {"name": name_of(key), "repair": repair}
        checks: list[dict[str, Any]] = []
        own = [{"check": "rows"}]
        window = board.rules.windows[key.window]
        if not self._encoding(board).layout.scored:
            own.insert(1 if window.steps else 0, {"check": "entries"})
        if board.rules.rank == "dense":
            own += [{"check": "score_counts"}, {"check": "distinct_scores"}]
        if board.hidden:
            own += [{"check": "hidden_entries"}, {"check": "hidden_members"}]
        if window.steps:
            arguments["window"] = {"name": scoped_name(key), "steps": window.steps}
            first = key.instance - window.steps + 1
            checks += [{"check": "cells", "step": first + i} for i in range(window.steps)]
            if window.interval_ms:
                checks = [{**check, "built": True} for check in (*checks, *own)]
        checks += own
        entries = 0
        for check in checks:
            checked = await self._audit_check(board, key, {**arguments, **check})
            entries = max(entries, checked)
        return entries

    async def audit_scopes(self, board: Opened, *, repair: bool) -> tuple[int, int]:
        """Audit every ranking of every scope. Return the number of rankings, and the number of
        entries in them."""
        rankings = entries = 0
        cursor = BEGIN
        while cursor != END:
            names, cursor = await self._operate("keys_of_scopes", board, cursor=cursor)
            keys = dict.fromkeys(key_of(board.number, name) for name in names)
            for key in without_boundaries(board.rules, keys):
                rankings, entries = (
                    rankings + 1,
                    entries + await self.audit(board, key, repair=repair),
                )
        return rankings, entries

    async def _audit_check(self, board: Opened, key: RankingKey, arguments: dict[str, Any]) -> int:
        entries, cursor = 0, BEGIN
        while cursor != END:
            share = {**arguments, "cursor": cursor}
            _, cursor, checked, member = await self._call(_AUDIT, board, share)
            entries += int(checked)
            if member:
                raise CheckFailed(f"{member!r} differs in {key}")
        return entries
