"""Reads a shard of a board while it is written: a scan, and then the rows that were changed during
the scan. See `lua/tracking.lua`."""

from array import array
from collections.abc import AsyncIterator, Iterator, Sequence
from typing import Any

from laurels.core.contents import (
    PIECE_ROWS,
    ChangedIndexPiece,
    ClearedRows,
    EventIds,
    IndexPiece,
    MemberValues,
    RankingRows,
    rows_of,
)
from laurels.core.ranking_key import RankingKey
from laurels.model.labels import ALL
from laurels.stores.redis.remote import Opened, Tracking

from .contents import ShardContents, pairs_of
from .names import name_of, scoped_name

_TAKEN = 500
"""The maximum number of changes that one call takes."""
_CELLS = 20_000
"""The maximum number of cells that one call looks up."""


class ShardTracking(ShardContents):
    """The calls of the index that read a shard while it is written."""

    async def track(self, board: Opened, owner: str) -> str:
        """Begin to track the changes of a shard. Return the number of this copy. Raises BoardMoving
        if another owner tracks or blocks them."""
        number: str = await self._operate("track", board, owner=owner)
        return number

    async def untrack(self, board: Opened, owner: str) -> bool:
        """End the tracking and blocking of an owner. Return False if they belong to another
        owner."""
        return bool(await self._operate("untrack", board, owner=owner))

    async def owner(self, board: Opened) -> str | None:
        """Return the owner that tracks or blocks the shard; None if there is none."""
        owner: str | bool = await self._operate("owner", board)
        return None if isinstance(owner, bool) else owner

    async def seize(self, board: Opened, owner: str) -> None:
        """Transfer the tracking or blocking of a shard to the move `owner`, whichever has it."""
        await self._operate("seize", board, owner=owner)

    async def block(self, board: Opened, copy: Tracking) -> None:
        """Refuse further writes to a shard."""
        await self._operate("block", board, number=copy.number, owner=copy.owner)

    async def tracked(self, board: Opened, copy: Tracking) -> tuple[int, int]:
        """Return how many changes and how many added event ids are tracked. Raises TrackingLost if
        any may be missing."""
        changes, ids = await self._operate("tracked", board, number=copy.number, owner=copy.owner)
        return changes, ids

    # The scan

    async def scan(self, board: Opened) -> AsyncIterator[IndexPiece]:
        """Yield all pieces of a shard that is written meanwhile. Rows that do not change are in the
        pieces at least once."""
        async for members, values in self._scan(board, b"x"):
            yield MemberValues(list(zip(members, values, strict=True)))
        async for piece in self._scanned_ids(board):
            yield piece
        for key in await self._all_keys(board):
            window = board.rules.windows[key.window]
            for step in range(key.instance - window.steps + 1, key.instance + 1):
                async for rows in self._cells(board, key, step):
                    yield rows
            async for rows in self._scanned_entries(board, key):
                yield rows

    async def _scanned_ids(self, board: Opened) -> AsyncIterator[IndexPiece]:
        """Yield the event ids in the order of their times. Each read continues from the last time
        read, and not from a position, since ids may expire meanwhile."""
        last, seen = b"-inf", 0
        while True:
            span = (last, b"+inf", b"BYSCORE", b"LIMIT", b"%d" % seen, b"%d" % PIECE_ROWS)
            ids = pairs_of(await self._command(board, b"ZRANGE", b"q", *span, b"WITHSCORES"))
            groups: dict[int, list[bytes]] = {}
            for id, score in ids:
                groups.setdefault(int(score), []).append(id)
            if ids:
                yield EventIds(list(groups.items()))
            if len(ids) < PIECE_ROWS:
                return
            newest, keys = list(groups.items())[-1]
            before, last = last, b"%d" % newest
            seen = len(keys) + (seen if last == before else 0)

    async def _scanned_entries(self, board: Opened, key: RankingKey) -> AsyncIterator[RankingRows]:
        if await self._command(board, b"EXISTS", f"g:{name_of(key)}".encode()):
            async for rows in self._everyone(board, key):
                yield rows
            return
        name = name_of(await self._stored_key(board, key)).encode()
        if self._encoding(board).layout.scored:
            shares = self._scanned_scores(board, name)
        else:
            shares = self._scanned_forms(board, key, name)
        async for found in shares:
            members, forms = list(found), list(found.values())
            has_steps = self._has_steps(board, key)
            if has_steps and self._encoding(board).layout.scored:
                newest = f"e:{scoped_name(key)}".encode()
                steps = await self._command(board, b"HMGET", newest, *members)
                kept = [i for i, step in enumerate(steps) if step is not None]
                members, forms = [members[i] for i in kept], [forms[i] for i in kept]
                words = self._words(board, key, forms)
                words.append(array("q", [int(steps[i]) for i in kept]))
            else:
                words = self._words(board, key, forms, has_steps=has_steps)
            if members:
                running = key.instance if board.rules.windows[key.window].steps else None
                name_and_step = (key.window, key.instance, key.scope, running)
                yield rows_of(*name_and_step, members, words, is_tally=False)

    async def _scanned_scores(self, board: Opened, name: bytes) -> AsyncIterator[dict[bytes, Any]]:
        """Yield members with their scores. A member that stays in the set during the whole scan is
        returned at least once."""
        cursor: Any = b"0"
        while True:
            count = b"%d" % (PIECE_ROWS // 4)
            cursor, part = await self._command(
                board, b"ZSCAN", b"r:" + name, cursor, b"COUNT", count
            )
            for share in _shares(dict(pairs_of(part))):
                yield share
            if cursor in (b"0", 0):
                return

    async def _scanned_forms(
        self, board: Opened, key: RankingKey, name: bytes
    ) -> AsyncIterator[dict[bytes, Any]]:
        """Yield members with their forms, in the order of the ranking. Each read continues after
        the last entry read. So an entry that does not change is never left out."""
        before = 8 * board.rules.order_words(key.window)
        first = b"-"
        while True:
            span = (first, b"+", b"BYLEX", b"LIMIT", b"0", b"%d" % PIECE_ROWS)
            entries: list[bytes] = await self._command(board, b"ZRANGE", b"r:" + name, *span)
            members = [entry[before:] for entry in entries]
            if members:
                forms = await self._command(board, b"HMGET", b"k:" + name, *members)
                yield {m: form for m, form in zip(members, forms, strict=True) if form is not None}
            if len(entries) < PIECE_ROWS:
                return
            first = b"(" + entries[-1]

    # Changes

    async def changed_pieces(
        self, board: Opened, copy: Tracking
    ) -> AsyncIterator[ChangedIndexPiece]:
        """Yield the current rows of the members whose changes have been tracked so far, and the
        event ids that were added."""
        changes, ids = await self.tracked(board, copy)
        taking = {"number": copy.number, "owner": copy.owner, "limit": _TAKEN}
        for _ in range(0, changes, _TAKEN):
            taken = await self._operate("take_tracked", board, **taking)
            parts: dict[str, list[str]] = {}
            for change in taken:
                scope, _, member = change.partition("\x1f")
                parts.setdefault(scope, []).append(member)
            for share in self._affordable(board, parts):
                for piece in await self._rows_of_members(board, share):
                    yield piece
        for _ in range(0, ids, _TAKEN):
            added: list[str] = await self._operate("take_ids", board, **taking)
            if added:
                pairs = zip(added[::2], added[1::2], strict=True)
                yield EventIds([(int(score), [bytes.fromhex(id)]) for id, score in pairs])

    def _affordable(
        self, board: Opened, parts: dict[str, list[str]]
    ) -> Iterator[list[tuple[str, list[str]]]]:
        """Yield scopes with members, in shares that one call can look up."""
        cells = 1 + sum(window.steps for window in board.rules.windows.values())
        most = max(1, _CELLS // cells)
        share: list[tuple[str, list[str]]] = []
        size = 0
        for scope, members in parts.items():
            for first in range(0, len(members), most):
                some = members[first : first + most]
                if share and size + len(some) > most:
                    yield share
                    share, size = [], 0
                share.append((scope, some))
                size += len(some)
        if share:
            yield share

    async def _rows_of_members(
        self, board: Opened, parts: Sequence[tuple[str, list[str]]]
    ) -> list[ChangedIndexPiece]:
        pieces: list[ChangedIndexPiece] = [
            ClearedRows(scope, [member.encode() for member in members]) for scope, members in parts
        ]
        found = await self._operate("rows_of_members", board, parts=parts)
        for window, instance, scope, running, is_tally, members, columns in found:
            pieces.append(
                rows_of(
                    window,
                    int(instance),
                    scope,
                    None if running is False else int(running),
                    [member.encode() for member in members],
                    [array("q", map(int, column)) for column in columns],
                    is_tally=is_tally,
                )
            )
        data = [member.encode() for scope, members in parts if scope == ALL for member in members]
        if data:
            values = await self._command(board, b"HMGET", b"x", *data)
            items = [(m, bytes(v)) for m, v in zip(data, values, strict=True) if v is not None]
            if items:
                pieces.append(MemberValues(items))
        return pieces


def _shares(found: dict[bytes, Any]) -> Iterator[dict[bytes, Any]]:
    """Divide what one call of a scan has returned into parts of at most PIECE_ROWS rows. This is
    needed since the server returns a small collection as a whole."""
    items = list(found.items())
    for first in range(0, len(items), PIECE_ROWS):
        yield dict(items[first : first + PIECE_ROWS])
