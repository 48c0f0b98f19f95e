"""The contents of boards in the memory index: the data of members, and whole boards as pieces."""

from array import array
from collections.abc import Iterator, Sequence

from laurels.core.contents import (
    ChangedIndexPiece,
    ClearedRows,
    EventIds,
    IndexPiece,
    MemberValues,
    RankingRows,
)
from laurels.errors.copies import BoardChanging
from laurels.errors.placement import BoardMoving
from laurels.model.labels import ALL

from .copying import Copying
from .loading import Loading
from .moving import (
    chunks,
    id_pieces,
    link_candidates,
    pieces_of_members,
    restore_rows,
    scanned_scope_pieces,
    scanned_shared_pieces,
    scope_pieces,
    shared_pieces,
    unranked_data,
)
from .ranked_reads import RankedReads
from .tracking import TrackedWrites

_ALL = 2**62


class BoardPieces(RankedReads):
    """The operations of the memory index that copy a board, read it whole, or restore it."""

    def _touch(self, board: int, scope: str = "") -> None:
        if self._copying is not None:
            self._copying.touch(board, scope)

    def set_data(self, board: int, member: bytes, data: bytes | None) -> None:
        if data is None:
            self._boards[board].data.pop(member, None)
        else:
            self._boards[board].data[member] = data
        if self._copying is not None:
            self._copying.touch_data(board, member)
        if (tracked := self._tracked.get(board)) is not None:
            tracked.note_data(member)

    def data(self, board: int, members: Sequence[str]) -> list[bytes | None]:
        store = self._boards[board].data
        return [store.get(member.encode()) for member in members]

    def all_data(self, board: int) -> dict[bytes, bytes]:
        return dict(self._boards[board].data)

    def touch(self, board: int) -> None:
        """Record, for a copy in progress, that the fold's description of a board has changed."""
        self._touch(board)

    def copy(self) -> Copying:
        """Begin a copy. Only one copy can be in progress."""
        self._copying = Copying(self._boards.get, self._followed, list(self._boards), self._roster)
        self._ended = None
        return self._copying

    def end_copy(self, limit: int) -> bool:
        """End the copy, whether or not it is finished: writes are no longer recorded for it. Free a
        share of what it has recorded, in about `limit` steps, and return whether nothing is
        left."""
        if self._copying is not None:
            self._copying, self._ended = None, self._copying
        if self._ended is not None and self._ended.end(limit):
            self._ended = None
        return self._ended is None

    def load(self) -> Loading:
        """Begin loading a copy into this index, which has to be empty."""
        return Loading(self._boards, self._roster)

    def contents(self, board: int) -> Iterator[IndexPiece]:
        """Yield the whole state of a board. The board must not change meanwhile."""
        store = self._boards[board]
        yield from shared_pieces(store)
        for scope in [ALL, *sorted(store.scopes)]:
            if (part := self._followed(board, scope)) is not None:
                yield from scope_pieces(scope, part, self._roster)

    def track(self, board: int, owner: str) -> None:
        """Begin to track the members that writes to a board change."""
        if not self.untrack(board, owner):
            raise BoardMoving("another move copies the board")
        self._tracked[board] = TrackedWrites(owner)

    def untrack(self, board: int, owner: str) -> bool:
        """End tracking by an owner."""
        tracked = self._tracked.get(board)
        if tracked is None:
            return True
        if tracked.owner != owner:
            return False
        del self._tracked[board]
        return True

    def tracking_owner(self, board: int) -> str | None:
        """Return the owner that tracks a board."""
        tracked = self._tracked.get(board)
        return None if tracked is None else tracked.owner

    def scan(self, board: int) -> Iterator[IndexPiece]:
        """Yield the whole state of a board. The board may change meanwhile; the pieces have all
        rows that do not change."""
        store = self._boards[board]
        yield from scanned_shared_pieces(store)
        for scope in [ALL, *sorted(store.scopes)]:
            if (part := self._followed(board, scope)) is not None:
                yield from scanned_scope_pieces(scope, part, self._roster)

    def changed_pieces(self, board: int, owner: str, from_ms: int) -> Iterator[ChangedIndexPiece]:
        """Yield the current rows and data of the members whose changes were tracked since the last
        call, and the event ids accepted from `from_ms` on."""
        store, tracked = self._boards[board], self._tracked.get(board)
        if tracked is None or tracked.owner != owner:
            raise BoardChanging("the changes of the board are no longer tracked")
        by_scope, data = tracked.take()
        by_scope.setdefault(ALL, set()).update(
            [id for member in data if (id := self._roster.find(member)) >= 0]
        )
        yield from unranked_data(store, self._roster, data)
        for scope, ids in by_scope.items():
            for some in chunks(ids):
                part = self._followed(board, scope)
                yield from pieces_of_members(store, part, self._roster, scope, some)
        yield from id_pieces(store.remembered.between(from_ms, _ALL))

    def restore(self, board: int, piece: ChangedIndexPiece) -> None:
        """Write a piece of a board's state. After the last piece, `restored` has to be called."""
        store = self._boards[board]
        match piece:
            case RankingRows():
                ids, structure = restore_rows(board, store, self._roster, piece)
                if self._copying is not None:
                    self._copying.touch(board, piece.scope, ids, [structure])
            case EventIds(groups):
                for accepted_ms, keys in groups:
                    for key in keys:
                        store.remembered.restore(key, accepted_ms)
                self._touch(board)
            case MemberValues(items):
                for member, value in items:
                    self.set_data(board, member, value)
            case ClearedRows(scope, members):
                self._clear(board, scope, members)

    def _clear(self, board: int, scope: str, members: Sequence[bytes]) -> None:
        store = self._boards[board]
        for member in members if scope == ALL else ():
            self.set_data(board, member, None)
        if (part := store.parts.get(scope)) is None:
            return
        ids = array("I", [id for each in members if (id := self._roster.find(each)) >= 0])
        for ranking in part.rankings.values():
            ranking.discard(ids)
        for rolling in part.rolling.values():
            rolling.discard(ids)
        if self._copying is not None:
            self._copying.touch(board, scope, ids, part.structures())
        store.drop_empty(scope)

    def restored(self, board: int) -> None:
        """Compute the data that the pieces of a board leave out: links between candidates, and
        prepared rankings."""
        store = self._boards[board]
        for part in store.parts.values():
            for rolling in part.rolling.values():
                if store.rules.best and not rolling.deferred:
                    for tally in link_candidates(rolling):
                        if self._copying is not None:
                            self._copying.copy_again(tally)
                rolling.prepare()
        self._touch(board)
