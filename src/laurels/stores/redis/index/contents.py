"""Reads a whole shard of a board from the server as pieces, and writes a shard from pieces."""

from array import array
from collections.abc import AsyncIterator, Iterable, Sequence
from typing import Any

from laurels.core.contents import (
    PIECE_ROWS,
    ChangedIndexPiece,
    ClearedRows,
    EventIds,
    IndexPiece,
    MemberValues,
    Origin,
    RankingRows,
    rows_of,
)
from laurels.core.hiding import Hiding
from laurels.core.ranking_key import RankingKey
from laurels.stores.redis.outdated import PassesNotReady
from laurels.stores.redis.remote import Opened

from .calls import BEGIN, END, ShardCalls
from .coding import as_text
from .hidings import encode_stored
from .names import key_of, name_of, scoped_name, without_boundaries
from .read_coding import unpack_rows, unpack_scores

_WRITTEN = 1_000
"""The maximum number of rows that one call writes."""
_SCAN = 1_000
_WALK_LIMIT = 2_000
_MOVE_LIMIT = 1_000
"""The maximum number of members that one call of a pass moves into the layout with a head."""


class ShardContents(ShardCalls):
    """The calls of the index that read and write whole shards. A board must not change while it is
    read."""

    # Reading

    async def pieces(self, board: Opened) -> AsyncIterator[IndexPiece]:
        """Yield all pieces of a shard."""
        async for members, values in self._scan(board, b"x"):
            yield MemberValues(list(zip(members, values, strict=True)))
        async for piece in self._ids(board):
            yield piece
        for key in await self._all_keys(board):
            window = board.rules.windows[key.window]
            for step in range(key.instance - window.steps + 1, key.instance + 1):
                async for rows in self._cells(board, key, step):
                    yield rows
            async for rows in self._entries(board, key):
                yield rows

    async def end(self, board: Opened) -> tuple[int, int]:
        """Return the sequence and the tag of the newest block of changes; both are 0 if there is
        none."""
        sequence, tag = await self._command(board, b"HMGET", b"m", b"hseq", b"htag")
        return int(sequence or 0), int(tag or 0)

    async def _all_keys(self, board: Opened) -> list[RankingKey]:
        """Return the keys of all rankings. Of a rolling window, return only the key of the
        running step. The rankings kept from its boundaries are left out, since they are sealed
        before a board is copied."""
        all_names: dict[str, None] = {}
        for op in ("keys", "keys_of_scopes"):
            cursor = BEGIN
            while cursor != END:
                names, cursor = await self._operate(op, board, empty=True, cursor=cursor)
                all_names |= dict.fromkeys(names)
        all_keys = [key_of(board.number, name) for name in all_names]
        keys = without_boundaries(board.rules, all_keys)
        return sorted(keys, key=lambda key: (key.scope, key.window, key.instance))

    async def _ids(self, board: Opened) -> AsyncIterator[IndexPiece]:
        start = 0
        while rows := await self._range(board, b"q", start, PIECE_ROWS):
            groups: list[tuple[int, list[bytes]]] = []
            for id, score in rows:
                accepted_ms = int(score)
                if not groups or groups[-1][0] != accepted_ms:
                    groups.append((accepted_ms, []))
                groups[-1][1].append(id)
            yield EventIds(groups)
            start += len(rows)

    async def _cells(self, board: Opened, key: RankingKey, step: int) -> AsyncIterator[RankingRows]:
        name = scoped_name(key)
        refreshed = key.window in board.rules.refreshed
        width = board.rules.order_words(key.window)
        tally = f"t:{name}:{step}".encode()
        async for members, forms in self._scan(board, tally):
            if board.rules.best and not refreshed:
                packed = await self._command(board, b"HMGET", f"c:{name}".encode(), *members)
                found = [_candidate(each, step, width) for each in packed]
                kept = [member for i, member in enumerate(members) if found[i] is not None]
                words = unpack_rows([each for each in found if each is not None], width)
            else:
                kept, words = members, self._words(board, key, forms)
            yield rows_of(key.window, step, key.scope, key.instance, kept, words, is_tally=True)

    async def _entries(self, board: Opened, key: RankingKey) -> AsyncIterator[RankingRows]:
        window = board.rules.windows[key.window]
        state = f"g:{name_of(key)}".encode()
        if await self._command(board, b"EXISTS", state):
            async for rows in self._everyone(board, key):
                yield rows
            return
        name = name_of(await self._stored_key(board, key)).encode()
        has_steps = self._has_steps(board, key)
        start = 0
        while entries := await self._range(board, b"r:" + name, start, PIECE_ROWS):
            start += len(entries)
            if self._encoding(board).layout.scored:
                members = [member for member, _ in entries]
                words = self._words(board, key, [score for _, score in entries])
                if has_steps:
                    newest = f"e:{scoped_name(key)}".encode()
                    steps = await self._command(board, b"HMGET", newest, *members)
                    words.append(array("q", map(int, steps)))
            else:
                before = 8 * board.rules.order_words(key.window)
                members = [entry[before:] for entry, _ in entries]
                forms = await self._command(board, b"HMGET", b"k:" + name, *members)
                words = self._words(board, key, forms, has_steps=has_steps)
            running = key.instance if window.steps else None
            yield rows_of(
                key.window, key.instance, key.scope, running, members, words, is_tally=False
            )

    async def _stored_key(self, board: Opened, key: RankingKey) -> RankingKey:
        """Return the key of a ranking with the instance under which the server stores it: in a
        rolling window the parity of the step, in a refreshed window the parity of the number of
        refreshes."""
        if key.window in board.rules.refreshed:
            field = f"gen:{key.window}".encode()
            shown = int(await self._command(board, b"HGET", b"m", field) or 0) % 2
            return key._replace(instance=shown)
        if board.rules.windows[key.window].steps:
            return key._replace(instance=key.instance % 2)
        return key

    def _has_steps(self, board: Opened, key: RankingKey) -> bool:
        """Return whether each row of a ranking also has the newest step of its member."""
        is_refreshed = key.window in board.rules.refreshed
        return board.rules.windows[key.window].steps > 0 and not is_refreshed

    async def _everyone(self, board: Opened, key: RankingKey) -> AsyncIterator[RankingRows]:
        """Yield all members of a ranking with a head, bucket by bucket."""
        cursor = END
        while True:
            arguments = {"name": name_of(key), "cursor": cursor, "limit": _WALK_LIMIT}
            try:
                members, columns, cursor = await self._operate("walk", board, **arguments)
            except PassesNotReady:
                await self._operate("advance_head", board, limit=_MOVE_LIMIT)
                continue
            if members:
                yield rows_of(
                    key.window,
                    key.instance,
                    key.scope,
                    None,
                    [member.encode() for member in members],
                    [array("q", map(int, column)) for column in columns],
                    is_tally=False,
                )
            if cursor == END:
                return

    def _words(
        self, board: Opened, key: RankingKey, forms: Sequence[Any], *, has_steps: bool = False
    ) -> list["array[int]"]:
        """Return the words of forms, column by column."""
        layout = self._encoding(board).layout
        if layout.scored:
            return unpack_scores(layout, [int(float(form)) for form in forms])
        width = board.rules.order_words(key.window) + board.rules.is_stamped + has_steps
        return unpack_rows(forms, width)

    async def _range(
        self, board: Opened, name: bytes, start: int, count: int
    ) -> list[tuple[bytes, Any]]:
        """Return the entries of a sorted set from a position on, with their scores."""
        span = (b"%d" % start, b"%d" % (start + count - 1))
        answer = await self._command(board, b"ZRANGE", name, *span, b"WITHSCORES")
        return pairs_of(answer)

    async def _scan(
        self, board: Opened, name: bytes
    ) -> AsyncIterator[tuple[list[bytes], list[bytes]]]:
        """Yield the fields and values of a hash in shares, each field once."""
        seen: set[bytes] = set()
        cursor = b"0"
        while True:
            cursor, part = await self._command(
                board, b"HSCAN", name, cursor, b"COUNT", b"%d" % _SCAN
            )
            new = [(field, value) for field, value in pairs_of(part) if field not in seen]
            seen.update([field for field, _ in new])
            for first in range(0, len(new), PIECE_ROWS):
                some = new[first : first + PIECE_ROWS]
                yield [field for field, _ in some], [value for _, value in some]
            if cursor in (b"0", 0):
                return

    # Writing

    async def restore(self, board: Opened, piece: ChangedIndexPiece, now_ms: int) -> None:
        """Write a piece of a shard. Writing it again has no effect."""
        match piece:
            case RankingRows():
                for first in range(0, piece.size, _WRITTEN):
                    await self._write_rows(board, piece, first, now_ms)
            case EventIds(groups):
                entries: list[Any] = []
                for accepted_ms, keys in groups:
                    for key in keys:
                        entries += [accepted_ms, as_text(key)]
                await self._operate("restore_ids", board, entries=entries)
            case MemberValues(items):
                texts = [as_text(each) for item in items for each in item]
                await self._operate("restore_data", board, entries=texts)
            case ClearedRows(scope, members):
                for first in range(0, len(members), _WRITTEN):
                    some = [as_text(member) for member in members[first : first + _WRITTEN]]
                    await self._operate("clear_rows", board, scope=scope, members=some, now=now_ms)

    async def _write_rows(self, board: Opened, rows: RankingRows, first: int, now_ms: int) -> None:
        part = slice(first, first + _WRITTEN)
        scope = rows.scope
        await self._operate(
            "restore_rows",
            board,
            window=rows.window,
            instance=rows.instance,
            scope=scope,
            form=scope if scope.startswith("@") else _form_of(scope),
            steps=board.rules.windows[rows.window].steps,
            running=rows.running or 0,
            is_tally=rows.is_tally,
            closes=rows.window in board.rules.closing,
            members=[as_text(member) for member in rows.names()[part]],
            columns=[column[part].tolist() for column in rows.words()],
            now=now_ms,
        )

    async def restore_state(
        self,
        board: Opened,
        origin: Origin,
        positions: dict[str, str],
        block: tuple[int, int] | None,
    ) -> None:
        """Write the part of a shard's state that is not in its pieces. `block` is the shard's
        newest block of changes."""
        await self._operate(
            "restore_state",
            board,
            now=origin.now_ms,
            shown={
                window: [False if each.now_ms is None else each.now_ms, each.waiting]
                for window, each in origin.shown.items()
            },
            positions=[text for item in positions.items() for text in item],
            block=[str(each) for each in block] if block else None,
        )
        if not (board.shard or board.feeds):
            await self._restore_hidings(board, origin.hidden)

    async def _restore_hidings(
        self, board: Opened, hidings: Sequence[tuple[bytes, Hiding]]
    ) -> None:
        """Write the hidden members of a board, in place of those that an earlier attempt wrote."""
        for first in range(0, max(1, len(hidings)), _WRITTEN):
            part = hidings[first : first + _WRITTEN]
            flat = [
                text for member, hiding in part for text in (member.decode(), encode_stored(hiding))
            ]
            await self._operate("restore_hidings", board, first=not first, hidings=flat)


def _form_of(scope: str) -> str:
    """Return the form of a scope: the names of its labels."""
    return ",".join([pair.partition("=")[0] for pair in scope.split(",")]) if scope else ""


def _candidate(packed: bytes | None, step: int, width: int) -> bytes | None:
    """Find a step's candidate among the packed candidates of a member. Return its packed words;
    None if it has been replaced since the tally was read."""
    size = 8 * (width + 1)
    if packed is None:
        return None
    rows = [packed[at : at + size] for at in range(0, len(packed), size)]
    (steps,) = unpack_rows(rows, 1)
    return rows[steps.index(step)][8:] if step in steps else None


def pairs_of(answer: Any) -> list[tuple[bytes, Any]]:
    """Return an answer of the server as pairs; the answer is a map, a flat list, or a list of
    pairs."""
    if isinstance(answer, dict):
        return list(answer.items())
    items: Iterable[Any] = iter(answer or ())
    if answer and isinstance(answer[0], list):
        return [(field, value) for field, value in items]
    return list(zip(answer[::2], answer[1::2], strict=True)) if answer else []
