"""Move boards from one store to another while they are served.

1. The store of the board begins to track which rows writes change (`MovableCopies.track`), and the
board is copied while its writes go on. 2. Rows that were changed meanwhile are copied in rounds.
Each round takes less time than the one before, so fewer changes come in during it. 3. When a round
was short, the writes are held, and the old store refuses the writes of other processes. The last
changes are copied, the copy is finished and compared, and the route is stored. The writes go on in
the new store.

Reads are answered by the old store until then. If something changes that is not tracked, such as
the definition or the running step of a rolling window, the copy is begun anew.

After a kill at any point, `recover` removes what a move has left in the store that does not have
the board (`routes`), and lets the other store accept writes again.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from threading import Event, Lock

from msgspec import Struct
from msgspec.structs import replace

from laurels.core.contents import Origin
from laurels.errors import Closed, LaurelsError, Unavailable
from laurels.errors.copies import BoardChanging, NameTaken
from laurels.errors.placement import BoardMoving, UnknownStore
from laurels.model.validation import quoted
from laurels.stores.base import Servable
from laurels.stores.board_copies import TrackedBoard
from laurels.stores.intake.tags import new_owner
from laurels.wire.placement import MovedBoard, TakeoverMode

from .copy_checks import (
    HoldTimer,
    ensure_equal,
    ensure_equal_payouts,
    ensure_steps_are_longer,
    ensure_unchanged,
    put_pieces,
)
from .gate import MOST_HOLD_SECONDS, WriteGate
from .placed import PlacedStore
from .placement import Placement
from .removing import has_board, has_uid, remove, remove_unfinished
from .routes import BoardRoute, BoardRoutes
from .takeover import MoveSinks, MoveTakeover, owner_of

ATTEMPTS = 5
"""The maximum number of times that one move begins the copy of a board."""
_WORKING_SECONDS = MOST_HOLD_SECONDS * 0.7
"""How long a copy may be worked on while the writes are held; the switch takes the rest."""
_ROUND_SECONDS = 0.1
"""After a round that took at most this long, the writes are held. If they may be held for longer
than usual, a longer round suffices."""
_PAUSE_SECONDS = 0.5
_ROUNDS = 20


class _Copy(Struct, frozen=True):
    """A copy that is not finished: the origin of the board when the copy began, and how many rows
    were copied then."""

    origin: Origin
    rows: int


class Mover:
    """Moves boards between the stores of a service. The methods block. `clock` returns seconds,
    `later` calls a function in a thread. `move_sinks` lets the sinks of a board continue in its
    copy. `token` returns a random token for each move."""

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
        token: Callable[[], str] = new_owner,
    ) -> None:
        self._stores = stores
        self._placement = placement
        self._gate = gate
        self._routes = routes
        self._clock = clock
        self._later = later
        self._move_sinks = move_sinks
        self._token = token
        self._takeover = MoveTakeover(stores, placement, routes, move_sinks, token)
        self._busy = Lock()
        self._stopping = Event()

    def move(
        self, board: str, to: int, pause_seconds: int = 0, takeover: TakeoverMode = "none"
    ) -> MovedBoard:
        """Move a board to the store `to`. Writes are held for less than a second, or for up to
        `pause_seconds` if that is longer. Unless `takeover` is "none", first end the move of a
        killed service (see `MoveTakeover`). Raises UnknownBoard, UnknownStore, NameTaken,
        MoveRefused, BoardMoving, CopyRefused, and IndexUnavailable if a store does not answer."""
        if not 0 <= to < len(self._stores):
            raise UnknownStore(f"expected a store from 1 to {len(self._stores)}, got {to + 1}")
        if not self._busy.acquire(blocking=False):
            raise BoardMoving("another board is being moved")
        try:
            if takeover != "none":
                self._takeover.run(board, is_target_lost=takeover == "target_lost")
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
        if has_board(target, board):
            raise NameTaken(f"the store {to + 1} has another board {quoted(board)}")
        own, other = self._stores[number].identity, self._stores[to].identity
        route = BoardRoute(own, "copying", other, uid, owner_of(self._token(), other))
        tracked = source.copies.track(board, route.owner)  # refused while another process moves it
        try:
            self._routes.store(board, route)
        except BaseException:
            with suppress(LaurelsError):
                tracked.end()
            raise
        try:
            moved = self._copy_and_switch(board, route, tracked, source, target, to, pause_seconds)
        except BaseException:
            self._give_up(board, route)
            raise
        self._later(lambda: self._settle_later(board))
        return moved

    def _is_unsettled(self, board: str) -> bool:
        route = self._routes.all.get(board)
        return route is not None and route.state != "settled"

    def _copy_and_switch(
        self,
        board: str,
        route: BoardRoute,
        tracked: TrackedBoard,
        source: Servable,
        target: Servable,
        to: int,
        pause_seconds: int,
    ) -> MovedBoard:
        most_seconds = max(_WORKING_SECONDS, pause_seconds)
        for _ in range(ATTEMPTS):
            began = self._clock()
            try:
                copy = self._copy_in_rounds(board, tracked, source, target, most_seconds)
                with self._writes_on_hold(board, most_seconds) as timer:
                    origin = self._complete(board, tracked, source, target, copy, timer)
                    self._switch(board, replace(route, uid=origin.uid), source, target, to)
            except BoardChanging:
                ensure_steps_are_longer(source.copies.origin(board), self._clock() - began)
                # This begins the tracking anew without ending it first, so no other process can
                # begin a move.
                tracked = source.copies.track(board, route.owner)
            else:
                return MovedBoard(board, to + 1, copy.rows, round(1_000 * timer.seconds, 1))
        raise BoardMoving(f"the board {quoted(board)} was changed each time that it was copied")

    def _copy_in_rounds(
        self,
        board: str,
        tracked: TrackedBoard,
        source: Servable,
        target: Servable,
        most_seconds: float,
    ) -> _Copy:
        """Copy a board while it is written, then the rows that were changed meanwhile, until a
        round is short."""
        source.copies.settle(board)
        origin = source.copies.origin(board)
        if (unfinished := target.copies.unfinished(board)) is not None:
            if unfinished.uid != origin.uid:
                raise NameTaken(f"the target has an unfinished copy of another {quoted(board)}")
            target.copies.give_up(board)
        target.copies.begin(origin)
        rows = put_pieces(target, origin, tracked.pieces())
        for _ in range(_ROUNDS):
            began = self._clock()
            put_pieces(target, origin, tracked.changed_pieces())
            if self._clock() - began <= max(_ROUND_SECONDS, most_seconds / 5):
                break
        return _Copy(origin, rows)

    def _complete(
        self,
        board: str,
        tracked: TrackedBoard,
        source: Servable,
        target: Servable,
        copy: _Copy,
        held: HoldTimer,
    ) -> Origin:
        """Complete the copy of a board whose writes are held. Raises BoardChanging if the copy has
        to be begun anew."""
        tracked.block()
        origin = source.copies.origin(board)
        ensure_unchanged(copy.origin, origin)
        put_pieces(target, origin, tracked.changed_pieces(), held.ensure_time)
        if not source.copies.origin(board).equals_except_time(origin):
            raise BoardChanging("the board was changed although its writes were held")
        target.copies.renew(origin)
        return origin

    def _switch(
        self, board: str, copying: BoardRoute, source: Servable, target: Servable, to: int
    ) -> None:
        """Finish the copy of a board whose writes are held, and make the target the store of the
        board."""
        target.copies.finish(board)
        ensure_equal(board, source, target)
        ensure_equal_payouts(board, source, target)
        if unsent := self._move_sinks(source, target, board):
            raise BoardMoving(f"{quoted(board)} has {unsent[0]}")
        route = replace(copying, store=copying.other, state="moved", other=copying.store)
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
    def _writes_on_hold(self, board: str, most_seconds: float) -> Iterator[HoldTimer]:
        """Hold the writes of a board. Raises BoardMoving if writes that have begun do not end."""
        timer = HoldTimer(self._clock, most_seconds)
        drained = self._gate.hold(board)
        try:
            try:
                drained.result(_WORKING_SECONDS)
            except TimeoutError:
                raise BoardMoving("the writes in progress took too long") from None
            yield timer
        finally:
            self._gate.release(board)
            timer.end()

    def _give_up(self, board: str, route: BoardRoute) -> None:
        """Remove what a failed move has left, and let the old store accept writes again. If that
        fails, repeat it in a thread until it succeeds. First store `route`, the route of the
        unfinished move, again: the route of the finished move may have been stored although an
        error was raised."""
        try:
            self._routes.store(board, route)
            self._settle(board)
        except LaurelsError:  # the old store may still refuse the writes of the board
            self._later(lambda: self._give_up_patiently(board, route))

    def _give_up_patiently(self, board: str, route: BoardRoute) -> None:
        while not self._stopping.wait(_PAUSE_SECONDS):
            with suppress(LaurelsError):
                self._routes.store(board, route)
                self._settle(board)
                return

    def _settle_later(self, board: str) -> None:
        """Settle a move after the reads that had begun in the old store have ended."""
        self._stopping.wait(self.linger_seconds)
        with suppress(LaurelsError):  # `recover` settles the move at the next start
            self._settle(board)

    def _settle(self, board: str) -> None:
        """End the move of a board. If the store of its route has the board, let it accept writes,
        and remove the board from the other store of the move. If the board was deleted while it was
        copied, remove the unfinished copy. If a process of another service is now moving the board,
        its data in the other store may belong to that move, so leave the data there."""
        route = self._routes.all.get(board)
        if route is None or route.state == "settled":
            return
        number, other = self._number(route.store), self._number(route.other)
        if number is None:
            return
        is_there = has_uid(self._stores[number].store, board, route.uid)
        is_own = not is_there or self._stores[number].store.copies.unblock(board, route.owner)
        if other is None:
            return
        if not is_own:
            pass
        elif is_there:
            remove(self._stores[other].store, board, route.uid)
        else:
            remove_unfinished(self._stores[other].store, board, route.uid)
        self._routes.store(board, self._settled(board, number))

    def _settled(self, board: str, number: int) -> BoardRoute | None:
        """Return the route to store for a board that is in the store `number`; None if the board's
        name points to this store, so that no route is needed."""
        if self._placement.pattern_number_of(board) == number:
            return None
        return BoardRoute(self._stores[number].identity)

    def forget(self, board: str) -> None:
        """Note that a board was deleted, and remove what a move has left of it in the old store. A
        new board of that name is then created in the store that the name points to."""
        route = self._routes.all.get(board)
        if route is None or route.state == "copying":  # the move fails, and removes its copy
            return
        with suppress(LaurelsError):
            if route.state == "moved":
                if (other := self._number(route.other)) is None:
                    return
                remove(self._stores[other].store, board, route.uid)
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
        """End the waiting of all threads. Moves that are not settled by then are settled by
        `recover` at the next start."""
        self._stopping.set()

    def _number(self, identity: str) -> int | None:
        identities = [each.identity for each in self._stores]
        return identities.index(identity) if identity in identities else None
