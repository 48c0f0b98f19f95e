"""The definitions of all boards, which processes share on the index server."""

import asyncio
from typing import Protocol

from msgspec.structs import replace

from laurels.core.board_record import BoardRecord, board_record, encode
from laurels.core.board_state import Boards, BoardState
from laurels.core.changes.deleted import Deletion
from laurels.model.board import Board
from laurels.timeline.instants import MIN_MS

from .closing import may_be_unpaid
from .everywhere import EverywhereChange, ServerEverywhere
from .refreshing import Refreshing
from .remote import Opened
from .retry import read_only

HIDING_FORMAT = 2
"""The version of the format of all keys once a member was hidden. Earlier versions of laurels would
go on listing the member, so they must not open the boards."""
CLEARING_FORMAT = 3
"""The version of the format of all keys once a board was cleared. Earlier versions of laurels would
not complete a clearing that was interrupted."""
RESTORING_FORMAT = 4
"""The version of the format of all keys once a removed board was restored. Earlier versions would
take the restoration for a clearing, and would remove the board if one of them was just about to
complete its deletion."""

ENTRIES_FORMAT = 5
"""The version of the format of all keys once a shard keeps the entries of its hidden members.
Earlier versions would write rankings without these entries."""


class Definitions(Protocol):
    """Board definitions by name on a server. They are bytes, and replaced by compare-and-swap."""

    async def load(self) -> tuple[dict[str, bytes], int]:
        """Return all definitions, and the number of the next board."""

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
        """Replace a definition if it is still `old`; None means that it does not exist. If a
        `number` is given, it must also still be the number of the next board, which is then
        incremented. `deletion` has the unique id of a deleted board whose changes are kept, and
        the bytes that are stored for it; `removed` has the same of a deleted board that can be
        restored, and the bytes of its listing. Return whether the definition was replaced. Raises
        BoardMoving while the board is moved to another store and its writes are blocked, except
        with `is_moved`, which deletes it after a move."""

    async def deleted(self) -> dict[bytes, bool]:
        """Return the definitions of deleted boards that may still have rankings on the server, and
        whether each can be restored."""

    async def cleared(self, body: bytes) -> None:
        """Remove a board from the list of `deleted`. Call it when all keys of the board are
        removed."""

    async def note(self, key: str) -> str | None:
        """Return the note stored under `key`, such as the name of the clock; None if there is
        none."""

    async def first_note(self, key: str, value: str) -> str:
        """Store a note unless there is one; return the stored note."""

    async def set_note(self, key: str, value: str) -> None:
        """Store a note, replacing any earlier one."""

    async def require_format(self, format: int) -> None:
        """Store the version of the format of all keys, unless a newer one is stored."""

    async def clear_note(self, key: str, value: str | None = None) -> None:
        """Remove a note; with `value`, only if it has this value."""

    async def take_number(self) -> int:
        """Return a number for a new board. No number is returned twice."""

    async def notes(self) -> dict[str, str]:
        """Return all notes."""


ERASING = "erasing"
"""The key of the note of the erasure that is not complete."""
ERASED = "erased"
"""The key of the note with the token of the erasure that was begun last."""


_COPY = "copy:"


def copy_note(board: str) -> str:
    """Return the key of the note about an unfinished copy of a board."""
    return _COPY + board


class Registry:
    """This process's copy of the boards' definitions, with methods that change the shared
    definitions."""

    def __init__(self, definitions: Definitions, everywhere: ServerEverywhere) -> None:
        self._definitions = definitions
        self._everywhere = everywhere
        self._read: dict[str, bytes] = {}
        self._loading = asyncio.Lock()
        self.boards = Boards()
        self.boards.closes_by_record = True
        self.gone: dict[str, BoardState] = {}
        """The boards that are no longer retained and still have to be removed, by name."""
        self.unpaid: dict[int, str] = {}
        """The names of boards that have or had prizes and whose `retain` is over, by number. They
        stay until all their payouts are confirmed, which only their ledgers know."""
        self.refreshing = Refreshing()
        self.pending: EverywhereChange | None = None
        """The change of the members hidden on all boards that not all boards have taken up, as of
        the last time that the list was read."""

    @read_only
    async def answers(self) -> None:
        """Raise an error if the server does not answer."""
        await self._definitions.note("clock")

    @read_only
    async def load(self) -> bool:
        """Read the definitions. Return whether any definition has changed since the last read.
        There is only one read at a time, so that an older result never replaces a newer one."""
        async with self._loading:
            return await self._load()

    async def deleted(self) -> list[tuple[bytes, Opened]]:
        """Return the deleted boards that may still have rankings on the server, each with its
        argument for `cleared`."""
        deleted = await self._definitions.deleted()
        return [(body, opened_from(body, is_kept=is_kept)) for body, is_kept in deleted.items()]

    async def cleared(self, body: bytes) -> None:
        """Remove a board from the list of `deleted`. Call it when all keys of the board are
        removed."""
        await self._definitions.cleared(body)

    def set_gone(self, now_ms: int) -> None:
        """Move the boards that are no longer retained at `now_ms` from this process's copy to
        `gone`, so that no call finds them. Boards whose ledger may have payouts are added to
        `unpaid`, and are found until a process has removed them. O(1) if there are no such
        boards."""
        for state in self.boards.take_unretained(now_ms):
            if may_be_unpaid(state):
                self.unpaid[state.number] = state.board.name
                continue
            self.boards.forget(state.number)
            self.refreshing.forget(state.number)
            self.gone[state.board.name] = state

    async def _load(self) -> bool:
        definitions, next_number = await self._definitions.load()
        changed = definitions != self._read
        if await self._everywhere.version() != self.boards.everywhere.stored_version:
            await self._load_everywhere()
        before = {state.number: state for state in self.boards.boards.values()}
        for name in [name for name in self._read if self._read[name] != definitions.get(name)]:
            if self.gone.pop(name, None) is None:
                number = self.boards.boards[name].number
                self.boards.forget(number)
                self.refreshing.forget(number)
            del self._read[name]
        for name in definitions.keys() - self._read.keys():
            state = self._open(definitions[name])
            earlier = before.get(state.number)
            if earlier is not None:
                state.now_ms = earlier.now_ms
            if earlier is not None and earlier.uid == state.uid:
                state.hidden = earlier.hidden
                state.hidden.forget()
        self._read = definitions
        self.boards.next_number = next_number
        return changed

    async def _load_everywhere(self) -> None:
        """Read the members that are hidden on all boards."""
        stored = await self._everywhere.load()
        self.pending = stored.pending
        self.boards.everywhere.replace(stored.hidings, stored.version)
        for state in self.boards.boards.values():
            state.views.clear()

    @read_only
    async def load_pending(self) -> EverywhereChange | None:
        """Read the pending change of the list of members hidden on all boards; None if all boards
        have taken up the list."""
        await self._load_everywhere()
        return self.pending

    async def change_everywhere(self, known: int, change: EverywhereChange) -> str:
        """Change the members that are hidden on all boards; see `ServerEverywhere.change`."""
        return await self._everywhere.change(known, change)

    async def require_format(self, format: int) -> None:
        """Store that versions of laurels which do not know a format cannot read the boards. Call it
        before a member is hidden (`HIDING_FORMAT`), a board cleared (`CLEARING_FORMAT`) or restored
        (`RESTORING_FORMAT`)."""
        await self._definitions.require_format(format)

    async def taken_up(self, change: EverywhereChange) -> None:
        """Store that all boards have taken up a change."""
        await self._everywhere.taken_up(change.version)
        if self.pending == change:
            self.pending = None

    def _open(self, body: bytes) -> BoardState:
        record = board_record(body)
        board = Board.from_json(record.definition)
        state = self.boards.open(
            board, record.number, record.version, record.created_ms, record.uid
        )
        state.floors = record.floors
        state.due_ms = record.due_ms
        state.closing = record.closing
        state.cleared = record.cleared
        state.may_have_payouts = record.may_have_payouts
        if state.rules.closing:
            state.final_ms = MIN_MS
        self.refreshing.watch(state)
        return state

    async def create(self, record: BoardRecord, name: str) -> bool:
        """Add a board with the number in its record. Return False if another process has taken the
        name or the number."""
        return await self._put(name, None, encode(record), record.number)

    async def adopt(self, record: BoardRecord, name: str) -> bool:
        """Add a board with a number from `take_number`. Return False if the board's name is
        taken."""
        return await self._put(name, None, encode(record), None)

    async def note(self, key: str) -> str | None:
        """Return the note stored under `key`, or None."""
        return await self._definitions.note(key)

    async def unfinished_copies(self) -> dict[str, str]:
        """Return the notes about unfinished copies, by the names of the boards."""
        notes = await self._definitions.notes()
        return {
            key.removeprefix(_COPY): text for key, text in notes.items() if key.startswith(_COPY)
        }

    async def first_note(self, key: str, value: str) -> str:
        """Store a note unless there is one; return the stored note."""
        return await self._definitions.first_note(key, value)

    async def set_note(self, key: str, value: str) -> None:
        """Store a note, replacing any earlier one."""
        await self._definitions.set_note(key, value)

    async def clear_note(self, key: str, value: str | None = None) -> None:
        """Remove a note; with `value`, only if it has this value."""
        await self._definitions.clear_note(key, value)

    async def take_number(self) -> int:
        """Return a number for a new board. No number is returned twice."""
        return await self._definitions.take_number()

    async def change(self, state: BoardState, record: BoardRecord) -> bool:
        """Replace a board's definition on the server by a changed one. Return False if this
        process's copy is outdated."""
        name = state.board.name
        # Definitions are stored without the hidden members, which the first shard of the board has.
        body = encode(replace(record, hidden=[]))
        return await self._put(name, self._read[name], body, None)

    async def delete(
        self,
        state: BoardState,
        deletion: Deletion | None = None,
        *,
        is_moved: bool = False,
        removed: bytes | None = None,
    ) -> bool:
        """Remove a board's definition. With a `deletion` the changes of the board are kept.
        `removed` is the listing of a board that can be restored. Return False if this process's
        copy is outdated. Raises BoardMoving, except with `is_moved`."""
        name = state.board.name
        kept = None if deletion is None else (state.uid, encode(deletion.record()))
        listed = None if removed is None else (state.uid, removed)
        return await self._put(
            name, self._read[name], None, None, kept, is_moved=is_moved, removed=listed
        )

    async def _put(
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
        done = await self._definitions.put(
            name, old, new, number, deletion, is_moved=is_moved, removed=removed
        )
        await self.load()
        return done


def opened_from(body: bytes, *, is_kept: bool = False) -> Opened:
    """Return a deleted board from its definition, in the form that calls of the index take."""
    record = board_record(body)
    return Opened(
        record.number,
        record.version,
        Board.from_json(record.definition).rules(),
        uid=record.uid,
        closings=0 if record.closing else None,
        is_kept=is_kept,
    )
