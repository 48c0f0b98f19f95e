"""The definitions of all boards, in one slot of the server."""

from collections.abc import Sequence
from typing import Any

import msgspec

from laurels.errors import FormatTooNew
from laurels.errors.placement import BoardMoving
from laurels.model.validation import quoted
from laurels.stores.redis.connection.connection import Connection
from laurels.stores.redis.registry import ENTRIES_FORMAT
from laurels.stores.redis.sources import script_of

from .coding import as_text

FORMAT = ENTRIES_FORMAT
"""The newest version of the format of all keys on the server. It covers the names and the contents
of the keys."""
_FIRST_FORMAT = 1
"""The version that is stored until something needs a newer one."""
_PUT = script_of("put_definition")
_MOVE = script_of("deleted_position")
_CLEAR = script_of("clear_note")
_RAISE = script_of("raise_format")
_RESTORE = script_of("restore_definition")
_FORGET = script_of("forget_removed")
_KEPT = b"kept"


def _pair(stored: tuple[str, bytes] | None) -> bytes:
    """Encode a unique id, and what is stored for it, as msgpack."""
    if stored is None:
        return _packed(None)
    uid, body = stored
    return b"\x92" + _packed(uid.encode()) + _packed(body)


def _packed(value: bytes | bool | int | None) -> bytes:
    """Encode a value as msgpack; bytes are encoded as a string."""
    return msgspec.msgpack.encode(as_text(value) if isinstance(value, bytes) else value)


class RedisDefinitions:
    """Implementation of `Definitions`."""

    def __init__(self, connection: Connection, prefix: str) -> None:
        self._connection = connection
        self._base = f"{prefix}{{boards}}:".encode()
        self._format = 0
        """The format that is stored on the server, as far as this object knows."""

    @property
    def key(self) -> bytes:
        """A key in the slot of the definitions."""
        return self._base + b"d"

    async def load(self) -> tuple[dict[str, bytes], int]:
        """Return all definitions, and the number of the next board."""
        definitions: Any = await self._call(b"HGETALL", b"d")
        number: Any = await self._call(b"GET", b"n")
        return {name.decode(): body for name, body in definitions.items()}, int(number or 1)

    async def put(
        self,
        name: str,
        old: bytes | None,
        new: bytes | None,
        number: int | None,
        deletion: tuple[str, bytes] | None = None,
        *,
        is_moved: bool = False,
        removed: tuple[str, bytes] | None = None,
    ) -> bool:
        """Replace a definition if the stored one is still `old` and, unless `number` is None, the
        number of the next board is still `number`. Return whether it was replaced. None as `old`
        stands for a missing definition, None as `new` removes it. `deletion` has the unique id of a
        deleted board whose changes are kept, and the bytes that are stored for it; `removed` has
        the unique id of a deleted board that can be restored, and the bytes of its listing. Raises
        BoardMoving while the writes of the board are blocked by a move to another store, except
        with `is_moved`, which deletes the board after the move."""
        parts = [*map(_packed, (name.encode(), old, new, number)), _pair(deletion)]
        argument = b"\x97" + b"".join([*parts, _packed(is_moved), _pair(removed)])
        done = await self._connection.script(_PUT, self._base + b"d", argument)
        if done == -1:
            raise BoardMoving(f"the board {quoted(name)} is being moved to another store")
        return bool(done)

    async def deleted(self) -> dict[bytes, bool]:
        """Return the definitions of deleted boards that may still have rankings on the server, and
        whether each can be restored."""
        definitions: Any = await self._call(b"HGETALL", b"g")
        return {bytes(body): bytes(kind) == _KEPT for body, kind in definitions.items()}

    async def cleared(self, body: bytes) -> None:
        """Remove a board from the list of `deleted`. Call it when all keys of the board are
        removed."""
        await self._call(b"HDEL", b"g", body)

    async def deletions(self) -> dict[str, bytes]:
        """Return the deleted boards whose changes are kept, by their unique ids."""
        deletions: Any = await self._call(b"HGETALL", b"z")
        return {bytes(uid).decode(): bytes(body) for uid, body in deletions.items()}

    async def deletion(self, uid: str) -> bytes | None:
        """Return the deleted board with a unique id; None if its changes are not kept."""
        body: bytes | None = await self._call(b"HGET", b"z", uid.encode())
        return body

    async def deletion_count(self) -> int:
        """Return the number of deleted boards whose changes are kept."""
        return int(await self._call(b"HLEN", b"z"))

    async def deleted_positions(self) -> dict[str, str]:
        """Return the positions of sinks in the changes of deleted boards. Each key is the unique id
        of the board, a slash, and the name under which the sink stores its position."""
        positions: Any = await self._call(b"HGETALL", b"zp")
        return {bytes(field).decode(): bytes(text).decode() for field, text in positions.items()}

    async def first_deleted_position(self, uid: str, source: str, text: str) -> None:
        """Store the position that a sink had when the board was deleted, unless the sink already
        has a position for the deleted board."""
        await self._call(b"HSETNX", b"zp", f"{uid}/{source}".encode(), text.encode())

    async def move_deleted_position(
        self, uid: str, source: str, text: str, follows: str | None
    ) -> str | None:
        """Move the position of a sink to `text` and return None, if the stored position is
        `follows` or `follows` is None. Otherwise return the stored position."""
        argument = msgspec.msgpack.encode([f"{uid}/{source}", text, follows])
        stored = await self._connection.script(_MOVE, self._base + b"zp", argument)
        return None if stored is None else bytes(stored).decode()

    async def forget_deletion(self, uid: str) -> None:
        """Remove a deleted board, and the positions of its sinks."""
        for field in await self.deleted_positions():
            if field.partition("/")[0] == uid:
                await self._call(b"HDEL", b"zp", field.encode())
        await self._call(b"HDEL", b"z", uid.encode())

    # Removed boards that can be restored

    async def removed(self) -> list[bytes]:
        """Return the listings of the removed boards that can be restored, in the order of their
        removal."""
        uids: list[bytes] = await self._call(b"ZRANGE", b"r", b"0", b"-1")
        listings: list[bytes | None] = await self._call(b"HMGET", b"rl", *uids) if uids else []
        return [bytes(each) for each in listings if each is not None]

    async def removed_definition(self, uid: str) -> bytes | None:
        """Return the definition of a removed board; None if it is not in the list."""
        body: bytes | None = await self._call(b"HGET", b"rd", uid.encode())
        return None if body is None else bytes(body)

    async def removed_sizes(self) -> dict[str, int]:
        """Return how many bytes of memory the states of removed boards take, by their unique ids.
        The size of a board is missing until its members are removed."""
        sizes: Any = await self._call(b"HGETALL", b"rb")
        return {bytes(uid).decode(): int(size) for uid, size in sizes.items()}

    async def set_removed_size(self, uid: str, nbytes: int) -> None:
        """Store how many bytes of memory the state of a removed board takes."""
        await self._call(b"HSET", b"rb", uid.encode(), b"%d" % nbytes)

    async def forget_removed(self, uid: str) -> None:
        """Take a removed board off the list, and add it to the list of `deleted`. Do nothing if it
        is not in the list."""
        await self._connection.script(_FORGET, self._base + b"r", uid.encode())

    async def restore(
        self, uid: str, name: str, body: bytes, unfinished: Sequence[str], erased: str | None
    ) -> bool:
        """Store the definition of a removed board again, and take the board off the lists of
        removed boards. Return False, without a change, if the board is not in the list, if the name
        is taken, if there is an unfinished copy of a board with one of the names in `unfinished`,
        or if the note about the newest erasure is not `erased` any more."""
        positions = await self.deleted_positions()
        sinks = [field for field in positions if field.partition("/")[0] == uid]
        text = msgspec.msgpack.encode([[*unfinished], False if erased is None else erased, sinks])
        argument = b"\x96" + b"".join(map(_packed, (uid.encode(), name.encode(), body))) + text[1:]
        return bool(await self._connection.script(_RESTORE, self._base + b"d", argument))

    async def notes(self) -> dict[str, str]:
        """Return all notes."""
        notes: Any = await self._call(b"HGETALL", b"f")
        return {bytes(key).decode(): bytes(text).decode() for key, text in notes.items()}

    async def ensure_readable(self, *, create: bool) -> None:
        """Raise FormatTooNew if the format of the stored keys is newer than the format of this
        version. With `create`, store the first format if none is stored yet."""
        kept = await self.note("format")
        if kept is None and create:
            kept = await self.first_note("format", str(_FIRST_FORMAT))
        if kept is not None and int(kept) > FORMAT:
            raise FormatTooNew(
                f"the boards on the server are in format {kept}, this version reads up to {FORMAT}"
            )

    async def require_format(self, format: int) -> None:
        """Store the version of the format of all keys, unless a newer one is stored."""
        if self._format < format:
            argument = msgspec.msgpack.encode(format)
            stored = await self._connection.script(_RAISE, self._base + b"f", argument)
            self._format = int(stored)

    async def note(self, key: str) -> str | None:
        """Return the note stored under `key`, or None."""
        text = await self._call(b"HGET", b"f", key.encode())
        return None if text is None else bytes(text).decode()

    async def set_note(self, key: str, value: str) -> None:
        """Store a note under `key`, replacing any earlier one."""
        await self._call(b"HSET", b"f", key.encode(), value.encode())

    async def first_note(self, key: str, value: str) -> str:
        """Store a note under `key` unless there is one; return the stored note."""
        await self._call(b"HSETNX", b"f", key.encode(), value.encode())
        return await self.note(key) or value

    async def clear_note(self, key: str, value: str | None = None) -> None:
        """Remove a note; with `value`, only if it has this value."""
        if value is None:
            await self._call(b"HDEL", b"f", key.encode())
            return
        argument = msgspec.msgpack.encode([key, value])
        await self._connection.script(_CLEAR, self._base + b"f", argument)

    async def take_number(self) -> int:
        """Return a number for a new board. No number is returned twice."""
        await self._call(b"SET", b"n", b"1", b"NX")
        return int(await self._call(b"INCR", b"n")) - 1

    async def _call(self, command: bytes, name: bytes, *rest: bytes) -> Any:
        key = self._base + name
        return await self._connection.command(command, key, *rest, key=key)
