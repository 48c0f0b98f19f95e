"""Copies whole boards from and to an index server, piece by piece.

An unfinished copy has a board number and keys, but no definition, so processes do not find it. A
note on the server has the number and the origin of the copy. The definition is stored when the copy
is complete.
"""

from base64 import b64decode, b64encode
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import contextmanager
from math import inf
from typing import Any

from msgspec import Struct

from laurels.core.board_record import BoardRecord
from laurels.core.board_state import BoardState
from laurels.core.closing import WindowClosing
from laurels.core.contents import (
    ChangedIndexPiece,
    ChangedPiece,
    CopyClock,
    Origin,
    OriginRest,
    Piece,
    UnfinishedCopy,
    decode_origin,
    encode,
)
from laurels.core.lifecycle import next_boundary
from laurels.core.season_pieces import PayoutRows, SealedShare, SeasonPiece
from laurels.errors.copies import CopyLost
from laurels.errors.index_server import LedgerRequired
from laurels.model.board import Board
from laurels.model.validation import quoted
from laurels.stores.intake.copies import (
    ensure_absent,
    ensure_copyable,
    name_taken,
    origin_of,
)
from laurels.stores.intake.shares import MAX_MEMBERS
from laurels.stores.redis.connection.deadline import ends_in
from laurels.timeline.instants import MIN_MS

from .catalog import BoardCatalog
from .outdated import DefinitionOutdated
from .payout_transfers import PayoutTransfers
from .registry import HIDING_FORMAT, copy_note
from .remote import Opened, opened_as
from .sealing import ServerSealing
from .season_copies import SeasonCopies
from .tracking import (
    ServerContents,
    TrackedServerBoard,
    erasures_of,
    pulled,
    release,
    seize,
)


class _Unfinished(Struct, frozen=True):
    """A board that is being copied: its number and origin."""

    number: int
    origin: Origin

    @property
    def board(self) -> Board:
        return Board.from_json(self.origin.definition)

    @property
    def opened(self) -> Opened:
        return Opened(self.number, self.origin.version, self.board.rules(), uid=self.origin.uid)


class ServerCopies:
    """Implementation of `BoardCopies`. `run` runs a coroutine on the store's loop and waits for its
    result, so the methods must be called from other threads than the loop's."""

    def __init__(
        self,
        catalog: BoardCatalog,
        contents: ServerContents,
        run: Callable[[Any], Any],
        sealing: ServerSealing,
        seasons: SeasonCopies,
        payouts: PayoutTransfers,
    ) -> None:
        self._catalog = catalog
        self._contents = contents
        self._run = run
        self._sealing = sealing
        self._seasons = seasons
        self._payouts = payouts

    def clock(self) -> CopyClock:
        """Return the time of the store."""
        return CopyClock(self._catalog.event_time, self._catalog.now())

    def settle(self, board: str) -> None:
        """Close the due periods of a board, and seal the closed ones. Raises LedgerUnavailable."""
        self._run(self._settle(board))

    def origin(self, board: str) -> Origin:
        """Advance the rankings of a board, and return the board's state without its rankings."""
        origin: Origin = self._run(self._origin(board))
        return origin

    def pieces(self, board: str) -> Iterator[Piece]:
        """Yield the pieces of a board."""
        yield from pulled(self._run, self._run(self._pieces(board)))
        yield from self._season_pieces(board)

    def _season_pieces(self, board: str) -> Iterator[Piece]:
        """Yield the sealed periods and the payouts of a board from its ledger."""
        origin = self.origin(board)
        yield from self._seasons.shares(origin)
        yield from self._payouts.pieces(Board.from_json(origin.definition), origin.uid)

    def payouts(self, board: str) -> Iterator[PayoutRows]:
        """Yield the payouts of a board."""
        state: BoardState = self._run(self._catalog.find_board(board))
        return self._payouts.rows(state.board, state.uid)

    def unfinished(self, board: str) -> UnfinishedCopy | None:
        """Return the unfinished copy of a board; None if there is none."""
        unfinished: _Unfinished | None = self._run(self._find_unfinished(board))
        return (
            None
            if unfinished is None
            else UnfinishedCopy(unfinished.origin.uid, unfinished.origin.definition)
        )

    def begin(self, origin: Origin) -> None:
        """Begin an unfinished copy of a board in this store."""
        self._run(self._begin(origin))

    def extend(self, board: str, rest: OriginRest) -> None:
        """Add a part of the origin of an unfinished copy."""
        self._run(self._extend(board, rest))

    def put(self, board: str, pieces: Sequence[ChangedPiece]) -> None:
        """Write pieces of an unfinished copy. Sealed periods and payouts are written to the
        ledger."""
        indexed: list[ChangedIndexPiece] = []
        seasons: list[SeasonPiece] = []
        for piece in pieces:
            if isinstance(piece, SealedShare | PayoutRows):
                seasons.append(piece)
            else:
                indexed.append(piece)
        unfinished: _Unfinished = self._run(self._put(board, indexed))
        for each in seasons:
            if isinstance(each, SealedShare):
                self._seasons.receive(unfinished.number, unfinished.origin, each)
            else:
                self._run(self._payouts.receive(unfinished.number, unfinished.board, each.items))

    def track(self, board: str, owner: str) -> TrackedServerBoard:
        """Begin to track the changes of a board."""
        tracked: TrackedServerBoard = self._run(self._track(board, owner))
        return tracked

    def unblock(self, board: str, owner: str) -> bool:
        """End the tracking or blocking that a killed process has left behind."""
        return bool(self._run(self._unblock(board, owner)))

    def owner(self, board: str) -> str | None:
        """Return the owner of the move that tracks or blocks a board; None if there is none."""
        owner: str | None = self._run(self._owner(board))
        return owner

    def seize(self, board: str, owner: str) -> None:
        """Take over the tracking or blocking of a board from another move."""
        self._run(self._seize(board, owner))

    def renew(self, origin: Origin) -> None:
        """Replace the origin of an unfinished copy."""
        self._run(self._renew(origin))

    def finish(self, board: str) -> None:
        """Make a complete copy visible to readers and writers. Raises CopyLost if the ledger lacks
        a sealed period."""
        unfinished: _Unfinished = self._run(self._put(board, ()))
        self._seasons.ensure_complete(unfinished.origin)
        self._run(self._finish(board))
        self._seasons.end(unfinished.number)

    def give_up(self, board: str) -> None:
        """Remove an unfinished copy with its data and its payouts. Its sealed periods stay in the
        ledger."""
        self._seasons.end(self._run(self._give_up(board)))

    # Coroutines that run on the loop of the store

    async def _settle(self, board: str) -> None:
        with ends_in(inf, anew=True):
            await self._catalog.load()
            if self._catalog.boards.named(board).closing:
                await self._catalog.retry_outdated(board, self._sealing.close)
                await self._sealing.seal_board(board)

    async def _origin(self, board: str) -> Origin:
        with ends_in(inf, anew=True):
            await self._catalog.load()
            self._catalog.boards.named(board)
            return await self._catalog.retry_outdated(board, self._read_origin)

    async def _read_origin(self, state: BoardState) -> Origin:
        catalog, opened = self._catalog, opened_as(state)
        now_ms = catalog.time_of(state)
        if state.rules.has_label_replica:
            await catalog.index.feed(opened, now_ms)
        await catalog.pass_boundary(state, now_ms)
        while state.rules.scoped and not await catalog.index.sweep(
            opened, catalog.due_work(state, now_ms), MAX_MEMBERS
        ):
            pass
        due_ms = next_boundary(state.rules, now_ms)
        await catalog.hidings.update(state)
        opened = opened_as(state)
        read = await catalog.index.read(opened, [], now_ms=now_ms, due_ms=due_ms)
        catalog.note_refresh_states(state, read.refresh_states)
        if state.closing:
            await catalog.closings.load(state)
            await catalog.closings.find_all_open(state)
        positions = await catalog.index.positions(opened)
        # this fails if the shards have different positions, since a copy has only one position
        for source in positions:
            await catalog.index.position(opened, source)
        return origin_of(
            state,
            now_ms,
            event_time=catalog.event_time,
            positions=positions,
            ends=await self._contents.ends(opened),
            changes=await catalog.index.offset(opened),
        )

    async def _pieces(self, board: str) -> AsyncIterator[Piece]:
        return self._contents.pieces(opened_as(await self._catalog.find_board(board)))

    async def _find_unfinished(self, board: str) -> _Unfinished | None:
        note = await self._catalog.registry.note(copy_note(board))
        if not note:
            return None
        unfinished = _Unfinished(*unfinished_of(note))
        if self._catalog.boards.find_by_number(unfinished.number) is not None:
            # The copy was finished, but the process ended before it had removed the note.
            await self._payouts.publish(unfinished.board)
            await self._catalog.registry.clear_note(copy_note(board))
            return None
        return unfinished

    async def _begin(self, origin: Origin) -> None:
        board = Board.from_json(origin.definition)
        name = board.name
        with ends_in(inf, anew=True):
            await self._catalog.load()
            self._ensure_ledger(origin)
            ensure_copyable(origin, self._catalog.now(), event_time=self._catalog.event_time)
            if name in self._catalog.boards.boards or await self._find_unfinished(name) is not None:
                raise name_taken(name)
            ensure_absent(self._catalog.boards, origin)
            number = await self._catalog.registry.take_number()
            note = _note(number, origin)
            if await self._catalog.registry.first_note(copy_note(name), note) != note:
                raise name_taken(name)
            await self._catalog.index.open(_Unfinished(number, origin).opened)

    def _ensure_ledger(self, origin: Origin) -> None:
        """Raise LedgerRequired, UnknownLedger or NotOnIndexServer if this store cannot have the
        archive of a board."""
        board = Board.from_json(origin.definition)
        self._sealing.ensure_ledger(board)
        if not board.ledger and any(each.sealed for each in origin.closing.values()):
            raise LedgerRequired(
                "the board has sealed periods: on an index server they need a ledger"
            )

    async def _require_unfinished(self, board: str) -> _Unfinished:
        """Return the unfinished copy of a board. Raises CopyLost if there is none."""
        if (unfinished := await self._find_unfinished(board)) is None:
            raise CopyLost(f"there is no unfinished copy of {quoted(board)}")
        return unfinished

    async def _track(self, board: str, owner: str) -> TrackedServerBoard:
        async def track(state: BoardState) -> TrackedServerBoard:
            opened = opened_as(state)
            erasures = await erasures_of(self._catalog)
            copies = await self._contents.track(opened, owner)
            try:  # a move that was killed may have left the payouts blocked
                await self._payouts.release(state.board, state.uid)
            except BaseException:
                await self._contents.untrack(opened, owner)
                raise
            return TrackedServerBoard(
                self._catalog,
                self._contents,
                self._run,
                state,
                opened,
                copies,
                self._season_pieces,
                self._payouts,
                erasures,
            )

        with ends_in(inf, anew=True):
            return await self._catalog.retry_outdated(board, track)

    async def _unblock(self, board: str, owner: str) -> bool:
        with ends_in(inf, anew=True):
            await self._catalog.load()
            state = await self._catalog.find_board(board)
            opened = opened_as(state)
            released = await release(self._catalog, self._contents, board, opened, owner)
            await self._payouts.release(state.board, state.uid, owner)
            return released

    async def _owner(self, board: str) -> str | None:
        with ends_in(inf, anew=True):
            await self._catalog.load()
            return await self._catalog.retry_outdated(
                board, lambda state: self._contents.owner(opened_as(state))
            )

    async def _seize(self, board: str, owner: str) -> None:
        with ends_in(inf, anew=True):
            await self._catalog.load()
            await self._catalog.retry_outdated(board, lambda state: self._seize_from(state, owner))

    async def _seize_from(self, state: BoardState, owner: str) -> None:
        board = state.board
        await self._payouts.seize(board, state.uid, owner)
        await seize(self._catalog, self._contents, board.name, opened_as(state), owner)

    async def _put(self, board: str, pieces: Sequence[ChangedIndexPiece]) -> _Unfinished:
        with ends_in(inf, anew=True), _lost(board):
            unfinished = await self._require_unfinished(board)
            for piece in pieces:
                await self._contents.restore(unfinished.opened, piece, unfinished.origin.now_ms)
            return unfinished

    async def _extend(self, board: str, rest: OriginRest) -> None:
        with ends_in(inf, anew=True):
            unfinished = await self._require_unfinished(board)
            note = _note(unfinished.number, unfinished.origin.with_rest(rest))
            await self._catalog.registry.set_note(copy_note(board), note)

    async def _renew(self, origin: Origin) -> None:
        with ends_in(inf, anew=True):
            board = origin.board_name
            note = _note((await self._require_unfinished(board)).number, origin)
            await self._catalog.registry.set_note(copy_note(board), note)

    async def _finish(self, board: str) -> None:
        with ends_in(inf, anew=True), _lost(board):
            unfinished = await self._require_unfinished(board)
            origin = unfinished.origin
            if origin.hidden:
                await self._catalog.registry.require_format(HIDING_FORMAT)
            await self._contents.restore_state(unfinished.opened, origin)
            await self._restore_closing(unfinished.opened, origin)
            record = BoardRecord(
                number=unfinished.number,
                definition=origin.definition,
                version=origin.version,
                created_ms=origin.created_ms,
                floors=origin.floors,
                positions={},
                due_ms=MIN_MS,
                uid=origin.uid,
                closing={
                    window: WindowClosing(each.since_ms, cleared=each.cleared)
                    for window, each in origin.closing.items()
                },
                may_have_payouts=_may_have_payouts(origin),
            )
            await self._catalog.remove_gone()
            ensure_absent(self._catalog.boards, origin)
            await self._catalog.deletions.copied_again(origin.uid)
            if not await self._catalog.registry.adopt(record, board):
                raise name_taken(board)
            await self._payouts.publish(unfinished.board)
            await self._catalog.registry.clear_note(copy_note(board))

    async def _restore_closing(self, opened: Opened, origin: Origin) -> None:
        """Record which periods of a board are sealed. Freeze these periods and all earlier ones."""
        if not origin.closing:
            return
        sealed = {
            (window, instance): seal
            for window, closing in origin.closing.items()
            for instance, seal in closing.sealed.items()
        }
        trimmed = {
            window: closing.trimmed
            for window, closing in origin.closing.items()
            if closing.trimmed is not None
        }
        recorded = {
            window: newest
            for window, closing in origin.closing.items()
            if (newest := _newest_closed(closing)) is not None
        }
        await self._catalog.index.freeze(opened, recorded, origin.now_ms)
        await self._catalog.index.restore_closings(opened, sealed, recorded, trimmed)

    async def _give_up(self, board: str) -> int:
        with ends_in(inf, anew=True):
            unfinished = await self._require_unfinished(board)
            await self._payouts.discard(unfinished.number, unfinished.board)
            await self._catalog.index.close(unfinished.opened)
            await self._catalog.registry.clear_note(copy_note(board))
            return unfinished.number


def _newest_closed(closing: WindowClosing) -> int | None:
    """Return the newest instance of a window that is closed; None if there is none. A closed period
    without ranked members has no record."""
    known = [
        *closing.sealed,
        *[each for each in (closing.trimmed, closing.floor) if each is not None],
    ]
    return max(known, default=None)


def _may_have_payouts(origin: Origin) -> bool:
    """Return whether a board has prizes, or may have had some when its periods were closed."""
    return bool(Board.from_json(origin.definition).prizes()) or any(
        closing.trimmed is not None or any(seal.prizes for seal in closing.sealed.values())
        for closing in origin.closing.values()
    )


@contextmanager
def _lost(board: str) -> Iterator[None]:
    """Return a context in which CopyLost is raised if the server no longer has the rankings of an
    unfinished copy."""
    try:
        yield
    except DefinitionOutdated as error:
        raise CopyLost(f"the unfinished copy of {quoted(board)} was removed") from error


def unfinished_of(note: str) -> tuple[int, Origin]:
    """Return the number and the origin of an unfinished copy from the note about it."""
    number, _, origin = note.partition(":")
    return int(number), decode_origin(b64decode(origin))


def _note(number: int, origin: Origin) -> str:
    """Return the note about an unfinished copy."""
    return f"{number}:{b64encode(encode(origin)).decode()}"
