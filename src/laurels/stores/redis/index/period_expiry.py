"""Lists the rankings of a shard, removes rankings of periods, and sets their expiry."""

from collections.abc import Sequence
from math import inf, isinf
from typing import Any

from laurels.core.ranking_key import RankingKey
from laurels.model.durations import MAX_DURATION_MS
from laurels.model.labels import ALL
from laurels.model.rules import Rules
from laurels.stores.redis.remote import Opened

from .calls import BEGIN, END, ShardCalls
from .coding import EXPIRY_MARGIN_MS, gone_seconds, lifetimes
from .names import key_of, name_of

_BUCKETS = 20
"""The number of buckets of a ranking with a head that are sampled to estimate its memory."""
_DROP = 100
"""The maximum number of rankings that one call drops."""


def _longer(lives: dict[str, int], others: dict[str, int]) -> dict[str, int]:
    """For each window that is in both mappings, return the longer of its two lifetimes."""
    return {name: max(ms, others[name]) for name, ms in lives.items() if name in others}


class PeriodExpiry(ShardCalls):
    """The calls of the index that list, drop and expire rankings."""

    async def keys(self, board: Opened, *, empty: bool = False) -> list[RankingKey]:
        """Return the keys of the rankings with members or, with `empty`, of all registered
        rankings. Those of a rolling window are the key of the running step and, if the window is
        archived at boundaries, the keys of the steps that ended at a boundary and are not
        sealed."""
        all_names: dict[str, None] = {}
        cursor = BEGIN
        while cursor != END:
            names, cursor = await self._operate("keys", board, empty=empty, cursor=cursor)
            all_names |= dict.fromkeys(names)
        return [key_of(board.number, name) for name in all_names]

    async def nbytes(self, board: Opened, key: RankingKey) -> int:
        """Return the approximate number of bytes of the server's memory that a ranking takes. In a
        refreshed window this includes the ranking that is being built."""
        window = board.rules.windows[key.window]
        instances = [key.instance]
        if window.steps:
            instances = [0, 1] if window.interval_ms else [key.instance % 2]
            if await self._command(board, b"EXISTS", b"r:" + name_of(key).encode()):
                instances = [key.instance]  # kept from a boundary
        names = [name_of(key._replace(instance=each)).encode() for each in instances]
        sizes = [
            await self._command(board, b"MEMORY", kind + name, before=b"USAGE")
            for name in names
            for kind in (b"r:", b"k:")
        ]
        return sum(size or 0 for size in sizes) + await self._nbytes_of_head(board, key)

    async def _nbytes_of_head(self, board: Opened, key: RankingKey) -> int:
        """Return the approximate number of bytes that the buckets and the grid of a ranking take,
        estimated from a sample of the buckets. Return 0 for a ranking without a head."""
        name = name_of(key).encode()
        stored = await self._command(board, b"HGET", b"g:" + name, b"buckets")
        if stored is None:
            return 0
        buckets = int(stored)
        level = 1 << max(0, buckets.bit_length() - 1)
        first = buckets - level
        ids = range(level + first, 2 * level, max(1, (level - first) // _BUCKETS))
        others = [b"g:" + name, b"ge:" + name, b"gc:" + name]
        keys = [*others, *[b"b:%b:%d" % (name, id) for id in ids]]
        sizes = [await self._command(board, b"MEMORY", key, before=b"USAGE") or 0 for key in keys]
        of_buckets = sizes[len(others) :]
        # Only buckets that are not divided yet are sampled. The two halves of a divided bucket
        # together have about as many members as one of these.
        undivided = sum(of_buckets) / max(1, len(of_buckets))
        return sum(sizes[: len(others)]) + int(undivided * level)

    async def expire(self, board: Opened, keys: Sequence[RankingKey], now_ms: int) -> None:
        """Set the expiry of the rankings of periods, if the server's clock is used. In a window
        that closes periods, the periods must be sealed already."""
        if self._expires:
            lives = lifetimes(board.rules, sealed=True)
            await self._expire(board, keys, {"now": now_ms, "lives": lives, "sealed": True})

    async def expire_sealed(self, board: Opened, window: str, instance: int, now_ms: int) -> None:
        """Set the expiry of the rankings of a sealed period in all scopes, if the server's clock is
        used. O(scopes)."""
        lives = lifetimes(board.rules, sealed=True)
        if not self._expires or window not in lives:
            return
        arguments = {
            "now": now_ms,
            "lives": {window: lives[window]},
            "sealed": True,
            # The period may be sealed long after its end, and other processes may still read it.
            "earliest": (now_ms + EXPIRY_MARGIN_MS) // 1_000,
        }
        await self._expire(board, [RankingKey(board.number, window, instance, ALL)], arguments)
        await self._expire_scopes(board, {**arguments, "only": [window, instance]})

    async def outlive(self, board: Opened, rules: Rules, now_ms: int) -> None:
        """Extend the expiry of all keys as far as new rules need, before the rules take effect."""
        if not self._expires:
            return
        unsealed = board.closings is not None
        gone = _gone(rules, unsealed=unsealed or bool(rules.closing))
        if gone > _gone(board.rules, unsealed=unsealed):
            lives, before = lifetimes(rules), lifetimes(board.rules)
            lives |= _longer(before, lives)
            await self._expire_all(board, lives, gone, {"now": now_ms})
            return
        lives, before = lifetimes(rules, sealed=True), lifetimes(board.rules, sealed=True)
        longer = {name: ms for name, ms in lives.items() if ms > before.get(name, ms)}
        closes = rules.closing.keys() - board.rules.closing.keys()
        longer |= {name: MAX_DURATION_MS for name in closes if name in before}
        if not longer:
            return
        # Keys without an expiry belong to periods that have to be sealed first.
        arguments = {"lives": longer, "now": now_ms, "sealed": True, "dated": True}
        keys = [key for key in await self.keys(board) if key.window in longer]
        await self._expire(board, keys, arguments)
        await self._expire_scopes(board, arguments)

    async def expire_all(self, board: Opened, now_ms: int, *, settled: bool = False) -> None:
        """Set the expiry of all keys of a board to the time at which the board is removed. If the
        board is never removed, or has periods that are not sealed, set it to a very late time.
        `settled` is whether all its periods are sealed."""
        if self._expires:
            unsealed = board.closings is not None and not settled
            gone = _gone(board.rules, unsealed=unsealed)
            lives = lifetimes(board.rules, sealed=settled)
            await self._expire_all(board, lives, gone, {"now": now_ms, "sealed": settled})

    async def _expire_all(
        self, board: Opened, lives: dict[str, int], gone: float, more: dict[str, Any]
    ) -> None:
        late = (more["now"] + MAX_DURATION_MS) // 1_000
        arguments = {**more, "lives": lives, "gone": late if isinf(gone) else int(gone)}
        keys = await self.keys(board, empty=True)
        periods = [key for key in keys if not board.rules.windows[key.window].steps]
        await self._expire(board, periods, arguments)
        await self._expire_scopes(board, arguments)
        forms = list(dict.fromkeys(spec.name for spec in board.rules.specs if spec.name))
        await self._operate("expire_board", board, forms=forms, **arguments)

    async def _expire_scopes(self, board: Opened, arguments: dict[str, Any]) -> None:
        cursor = BEGIN if board.rules.scoped else END
        while cursor != END:
            cursor = await self._operate("expire_scopes", board, cursor=cursor, **arguments)

    async def _expire(
        self, board: Opened, keys: Sequence[RankingKey], arguments: dict[str, Any]
    ) -> None:
        names = [name_of(key) for key in keys]
        while names:
            done = await self._operate("expire", board, names=names[:_DROP], **arguments)
            names = names[done:]

    async def drop(self, board: Opened, keys: Sequence[RankingKey]) -> None:
        """Remove rankings of periods."""
        names = [name_of(key) for key in keys]
        while names:
            dropped = await self._operate("drop", board, names=names[:_DROP])
            names = names[dropped:]


def _gone(rules: Rules, *, unsealed: bool) -> float:
    """Return the time at which the keys of a board expire, in seconds; infinity if they do not."""
    seconds = gone_seconds(rules, unsealed=unsealed)
    return inf if seconds is None else seconds
