"""Move boards from one store to another while they are served.

A board is copied while its writes go on. Then its writes are held, the copy is completed, finished
and compared, the route is stored, and the writes go on in the new store. Reads are answered by the
old store until then. How the copy is completed depends on the board:

- If single members of the board can be read (`MovableCopies.scan`), the members that are written
  after the copy was begun are noted. They are copied again, in rounds, until few of them are left.
  These few are copied while the writes are held.
- Otherwise the copy is complete if nothing was written since it began. If something was written,
  the copy is made again: while the writes are held, if it took only a part of a second; otherwise
  while writes go on.

After a kill at any point, `recover` removes what a move has left in the store that does not have
the board (`routes`).
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from threading import Event, Lock

from msgspec import Struct

from laurels.core.commands import DeleteBoard
from laurels.core.contents import Origin, Piece, RankingRows, grouped
from laurels.core.stats import BoardStats
from laurels.errors import Closed, LaurelsError, Unavailable, UnknownBoard
from laurels.errors.copies import CopyLost, NameTaken
from laurels.errors.placement import BoardMoving, MoveRefused, UnknownStore
from laurels.model.validation import quoted
from laurels.stores.base import PortableStore, Servable
from laurels.timeline.instants import MAX_MS
from laurels.wire.placement import MovedBoard

from .gate import MOST_HOLD_SECONDS, WriteGate
from .placed import PlacedStore
from .placement import Placement
from .routes import BoardRoute, BoardRoutes
from .touched import TouchedMembers

ATTEMPTS = 5
"""The maximum number of times that one move copies a board, if writes make each copy useless."""
SHARE_SECONDS = 0.4
"""A copy that took at most this long can be made again while the writes are held. If
`pause_seconds` lets the writes be held for longer, a copy that took longer can be made again,
too."""
_WORKING_SECONDS = MOST_HOLD_SECONDS * 0.7
"""How long a copy may be worked on while the writes are held; the switch takes the rest."""
_PAUSE_SECONDS = 0.5
_ROUNDS = 20
_FEW = 500
"""How many members may be left for the time in which the writes are held."""
_COMPARISONS = 3
"""How many times a difference is checked again, since a period may have ended between two reads."""


MoveSinks = Callable[[PortableStore, PortableStore, str], list[str]]
"""A function that is called with a store, another store with a copy of a board, and the board. A
sink that has sent all changes of the board is set to the cursor at which the changes of the copy
begin. The result has a sentence about each sink that has not sent all of them."""


class _Copy(Struct, frozen=True):
    """A copy that is not finished: the origin at its beginning, how many rows it has, and whether
    it can be made again while the writes are held. If it was made while the board was written,
    `touched` has the members whose rows are still missing, and event ids accepted from `since_ms`
    on are missing."""

    origin: Origin
    rows: int
    is_short: bool
    touched: TouchedMembers | None = None
    since_ms: int = 0


class Mover:
    """Moves boards between the stores of a service. The methods block. `clock` returns seconds,
    `later` calls a function in a thread. `move_sinks` lets the sinks of a board continue in its
    copy."""

    linger_seconds = 5.0
    """How long the old store keeps a board that was moved, for the reads that have begun."""

    def __init__(
        self,
        stores: Sequence[PlacedStore],
        placement: Placement,
        gate: WriteGate,
        routes: BoardRoutes,
        clock: Callable[[], float],
        later: Callable[[Callable[[], None]], object],
        move_sinks: MoveSinks,
    ) -> None:
        self._stores = stores
        self._placement = placement
        self._gate = gate
        self._routes = routes
        self._clock = clock
        self._later = later
        self._move_sinks = move_sinks
        self._busy = Lock()
        self._stopping = Event()

    def move(self, board: str, to: int, pause_seconds: int = 0) -> MovedBoard:
        """Move a board to the store `to`. Writes are held for less than a second, or for up to
        `pause_seconds` if that is longer. Raises UnknownBoard, UnknownStore, NameTaken,
        MoveRefused, BoardMoving, CopyRefused, and IndexUnavailable if a store does not answer."""
        if not 0 <= to < len(self._stores):
            raise UnknownStore(f"expected a store from 1 to {len(self._stores)}, got {to + 1}")
        if not self._busy.acquire(blocking=False):
            raise BoardMoving("another board is being moved")
        try:
            return self._move(board, to, pause_seconds)
        finally:
            self._busy.release()

    def _move(self, board: str, to: int, pause_seconds: int) -> MovedBoard:
        number = self._placement.number_of(board)
        source, target = self._stores[number].store, self._stores[to].store
        uid = source.copies.origin(board).uid
        if number == to:
            return MovedBoard(board, to + 1)
        if self._is_unsettled(board):
            raise BoardMoving(f"the old store still has {quoted(board)}, from the last move")
        if _has_board(target, board):
            raise NameTaken(f"the store {to + 1} has another board {quoted(board)}")
        own, other = self._stores[number].identity, self._stores[to].identity
        self._routes.store(board, BoardRoute(own, "copying", other, uid))
        try:
            moved = self._copy_and_switch(board, source, target, to, pause_seconds)
        except BaseException:
            self._give_up(board, number, to, uid)
            raise
        finally:
            self._gate.touched.pop(board, None)
        self._later(lambda: self._settle_later(board))
        return moved

    def _is_unsettled(self, board: str) -> bool:
        route = self._routes.all.get(board)
        return route is not None and route.state != "settled"

    def _copy_and_switch(
        self, board: str, source: Servable, target: Servable, to: int, pause_seconds: int
    ) -> MovedBoard:
        for _ in range(ATTEMPTS):
            if (copy := self._follow(board, source, target)) is None:
                copy = self._copy_whole(board, source, target, pause_seconds)
            with self._held(board, max(_WORKING_SECONDS, pause_seconds)) as held:
                origin = self._complete(board, source, target, copy, held)
                if origin is None:
                    continue
                self._switch(board, source, target, to, origin.uid)
            return MovedBoard(board, to + 1, copy.rows, round(1_000 * held.seconds, 1))
        raise BoardMoving(f"the board {quoted(board)} was written each time that it was copied")

    def _copy_whole(
        self, board: str, source: Servable, target: Servable, pause_seconds: int
    ) -> _Copy:
        """Copy a board without noting what is written meanwhile. If `_complete` finds that
        something was written, the copy is made again."""
        began = self._clock()
        origin, rows = _copied(source, target, board, source.copies.pieces(board))
        seconds = self._clock() - began
        return _Copy(origin, rows, seconds <= max(SHARE_SECONDS, 0.8 * pause_seconds))

    def _follow(self, board: str, source: Servable, target: Servable) -> _Copy | None:
        """Copy a board while it is written, then the members that were written meanwhile, until few
        are left. Return None if this is not possible."""
        since_ms = source.copies.clock().now_ms
        if source.copies.scan(board, since_ms) is None:
            return None
        touched = self._gate.touched[board] = TouchedMembers()
        try:
            # Writes that began earlier are not noted, so wait until they have ended.
            with self._held(board, _WORKING_SECONDS):
                since_ms = source.copies.clock().now_ms
            pieces = source.copies.scan(board, since_ms)
            assert pieces is not None, "the definition does not change without spoiling the copy"
            origin, rows = _copied(source, target, board, pieces)
            left = touched.take()
            for _ in range(_ROUNDS):
                if len(left) <= _FEW:
                    break
                until_ms = source.copies.clock().now_ms
                _put_members(source, target, board, left, since_ms, until_ms)
                since_ms, left = until_ms, touched.take()
            touched.add(left)
        except BaseException:
            self._gate.touched.pop(board, None)
            raise
        return _Copy(origin, rows, is_short=False, touched=touched, since_ms=since_ms)

    def _complete(
        self, board: str, source: Servable, target: Servable, copy: _Copy, held: "Held"
    ) -> Origin | None:
        """Complete the copy of a board whose writes are held. Return None if it has to be begun
        anew."""
        if copy.touched is not None:
            self._gate.touched.pop(board, None)
            origin = source.copies.origin(board)
            if copy.touched.is_spoiled or origin.version != copy.origin.version:
                return None
            left = copy.touched.take()
            _put_members(source, target, board, left, copy.since_ms, MAX_MS, held.ensure_time)
            target.copies.renew(origin)
        elif source.copies.origin(board).equals_except_time(copy.origin):
            return copy.origin
        elif not copy.is_short:
            return None
        else:
            pieces = source.copies.pieces(board)
            origin, _ = _copied(source, target, board, pieces, held.ensure_time)
        return origin if source.copies.origin(board).equals_except_time(origin) else None

    def _switch(self, board: str, source: Servable, target: Servable, to: int, uid: str) -> None:
        """Finish the copy of a board whose writes are held, and make the target the store of the
        board."""
        target.copies.finish(board)
        _ensure_equal(board, source, target)
        if unsent := self._move_sinks(source, target, board):
            raise BoardMoving(f"{quoted(board)} has {unsent[0]}")
        own, other = self._stores[to].identity, self._routes.all[board].store
        route = BoardRoute(own, "moved", other, uid)
        try:
            self._routes.store(board, route)
        except Unavailable:
            # the route may have been stored despite the error: hold the writes until this is known
            self._store_patiently(board, route)
        self._placement.move(board, to)

    def _store_patiently(self, board: str, route: BoardRoute) -> None:
        while not self._stopping.wait(_PAUSE_SECONDS):
            with suppress(Unavailable):
                return self._routes.store(board, route)
        raise Closed("the store is closed")

    @contextmanager
    def _held(self, board: str, most_seconds: float) -> "Iterator[Held]":
        """Hold the writes of a board. Raises BoardMoving if writes that have begun do not end."""
        held = Held(self._clock, most_seconds)
        drained = self._gate.hold(board)
        try:
            try:
                drained.result(_WORKING_SECONDS)
            except TimeoutError:
                raise BoardMoving("the writes in progress took too long") from None
            yield held
        finally:
            self._gate.release(board)
            held.end()

    def _give_up(self, board: str, number: int, to: int, uid: str) -> None:
        """Remove what a failed move has left. If the removal fails, `recover` repeats it. First
        store the route of the unfinished move again, since the route of the finished move may have
        been stored although storing it raised an error."""
        own, other = self._stores[number].identity, self._stores[to].identity
        with suppress(LaurelsError):
            self._routes.store(board, BoardRoute(own, "copying", other, uid))
            self._settle(board)

    def _settle_later(self, board: str) -> None:
        """Settle a move after the reads that had begun in the old store have ended."""
        self._stopping.wait(self.linger_seconds)
        with suppress(LaurelsError):  # `recover` does it at the next start
            self._settle(board)

    def _settle(self, board: str) -> None:
        """End the move of a board. If the store of its route has the board, remove the board from
        the other store of the move."""
        route = self._routes.all[board]
        number, other = self._number(route.store), self._number(route.other)
        if number is None or other is None:
            return
        if _has_uid(self._stores[number].store, board, route.uid):
            _remove(self._stores[other].store, board, route.uid)
        self._routes.store(board, self._settled(board, number))

    def _settled(self, board: str, number: int) -> BoardRoute | None:
        """Return the route of a board in a store; None if its name points there."""
        if self._placement.pattern_number_of(board) == number:
            return None
        return BoardRoute(self._stores[number].identity)

    def forget(self, board: str) -> None:
        """Note that a board was deleted. A new board of that name is then created in the store that
        the name points to."""
        route = self._routes.all.get(board)
        if route is not None and route.state == "settled":
            with suppress(LaurelsError):
                self._routes.store(board, None)
                self._placement.move(board, None)

    # At the start

    def load(self) -> None:
        """Read the routes, and place the boards accordingly. Raises UnknownStore if a board is in a
        store that the service does not have."""
        self._routes.load()
        self._routes.ensure_in([each.identity for each in self._stores])
        for board, route in self._routes.all.items():
            self._placement.move(board, self._number(route.store))

    def recover(self) -> None:
        """Remove what interrupted moves have left, in the stores that answer."""
        for board, route in list(self._routes.all.items()):
            if route.state != "settled":
                with suppress(Unavailable):
                    self._settle(board)

    def stop(self) -> None:
        """End all waiting. What is then still to be done is done at the next start."""
        self._stopping.set()

    def _number(self, identity: str) -> int | None:
        identities = [each.identity for each in self._stores]
        return identities.index(identity) if identity in identities else None


class Held:
    """The time for which the writes of a board are held, and for how long the copy may go on."""

    def __init__(self, clock: Callable[[], float], most_seconds: float) -> None:
        self._clock = clock
        self._most_seconds = most_seconds
        self._began = clock()
        self.seconds = 0.0

    def ensure_time(self) -> None:
        """Raise BoardMoving when the writes have waited for too long."""
        if self._clock() - self._began > self._most_seconds:
            raise BoardMoving("the last share of the copy took too long")

    def end(self) -> None:
        """Note for how long the writes were held."""
        self.seconds = self._clock() - self._began


def _copied(
    source: Servable,
    target: Servable,
    board: str,
    pieces: Iterator[Piece],
    proceed: Callable[[], None] = lambda: None,
) -> tuple[Origin, int]:
    """Copy a board without finishing the copy. `proceed` is called before each share. Return the
    origin and the number of rows."""
    origin = source.copies.origin(board)
    if target.copies.unfinished(board) is not None:
        target.copies.give_up(board)
    target.copies.begin(origin)
    return origin, _put(target, board, pieces, proceed)


def _put_members(
    source: Servable,
    target: Servable,
    board: str,
    members: set[bytes],
    from_ms: int,
    until_ms: int,
    proceed: Callable[[], None] = lambda: None,
) -> None:
    """Write the current rows of members to a copy, and the event ids accepted in an interval."""
    pieces = source.copies.member_pieces(board, sorted(members), from_ms, until_ms)
    _put(target, board, pieces, proceed)


def _put(target: Servable, board: str, pieces: Iterator[Piece], proceed: Callable[[], None]) -> int:
    rows = 0
    for group in grouped(pieces):
        proceed()
        target.copies.put(board, group)
        rows += sum([piece.size for piece in group if isinstance(piece, RankingRows)])
    proceed()
    return rows


def _has_board(store: Servable, board: str) -> bool:
    try:
        store.definition(board)
    except UnknownBoard:
        return False
    return True


def _remove(store: Servable, board: str, uid: str) -> None:
    """Remove a board of this unique id from a store, finished or not."""
    unfinished = store.copies.unfinished(board)
    if unfinished is not None and unfinished.uid == uid:
        with suppress(CopyLost):
            store.copies.give_up(board)
    if _has_uid(store, board, uid):
        store.write(DeleteBoard(board))


def _has_uid(store: Servable, board: str, uid: str) -> bool:
    try:
        return store.copies.origin(board).uid == uid
    except UnknownBoard:
        return False


def _ensure_equal(board: str, source: Servable, target: Servable) -> None:
    """Raise MoveRefused if two stores have different numbers of members of a board."""
    for _ in range(_COMPARISONS):
        own, copied = _counts(source.board_stats(board)), _counts(target.board_stats(board))
        if own == copied:
            return
    raise MoveRefused(f"the copy differs: the store has {own}, the copy {copied}")


def _counts(stats: BoardStats) -> tuple[object, ...]:
    windows = {each.window: (each.period, each.members) for each in stats.windows}
    return stats.version, windows, stats.remembered, stats.scopes
