"""Takes over boards from a service that was killed during a move and will not start again.

Such a move leaves an owner in the store of the board: no other service can move the board, and from
the last moment of the move on all writes are refused. The route of the killed service says whether
the board was switched, but another service does not have this route, and has to find out from the
state of the stores. The owner names the store to which the board was being copied:

- If that store has the complete board, the old one accepts no writes, since a copy is completed
  only while they are blocked. So the new store has every event, and the old board is removed. The
  exception is a board with a sink that has not sent all changes: it was never switched, so its copy
  is removed as in the next case.
- Otherwise nothing was written to the copy. It is removed, and the old store accepts writes again.

If only one store has the board after that, this service serves it from there, whatever store the
name points to.

Before all this, the owner is replaced, so that a service which was only paused cannot continue its
move.
"""

from collections.abc import Callable, Mapping, Sequence

from laurels.errors import UnknownBoard
from laurels.errors.placement import BoardMoving, MoveRefused
from laurels.model.validation import quoted
from laurels.stores.base import PortableStore

from .placed import PlacedStore
from .placement import Placement
from .removing import has_board, has_uid, remove
from .routes import BoardRoute, BoardRoutes

MoveSinks = Callable[[PortableStore, PortableStore, str], list[str]]
"""A function that is called with a store, another store with a copy of a board, and the board. A
sink that has sent all changes of the board is set to the cursor at which the changes of the copy
begin. The result has a sentence about each sink that has not sent all of them."""


def owner_of(token: str, target: str) -> str:
    """Return the owner of a move: its random token, and the identity of the store to which it
    copies the board."""
    return f"{token} {target}"


class MoveTakeover:
    """Takes over boards from moves of other services. The methods block."""

    def __init__(
        self,
        stores: Sequence[PlacedStore],
        placement: Placement,
        routes: BoardRoutes,
        move_sinks: MoveSinks,
        token: Callable[[], str],
    ) -> None:
        self._stores = stores
        self._placement = placement
        self._routes = routes
        self._move_sinks = move_sinks
        self._token = token

    def run(self, board: str, *, is_target_lost: bool) -> None:
        """End the moves of a board by killed services, and serve the board from the store that has
        it. With `is_target_lost`, a store to which the board was being copied, and which this
        service does not have, is ignored. Raises UnknownBoard, MoveRefused, BoardMoving."""
        route = self._routes.all.get(board)
        if route is not None and route.state != "settled":
            raise BoardMoving(f"this service itself has not completed a move of {quoted(board)}")
        having = {
            number: each.store.copies.origin(board).uid
            for number, each in enumerate(self._stores)
            if has_board(each.store, board)
        }
        owners = {number: self._stores[number].store.copies.owner(board) for number in having}
        targets: dict[int, int | None] = {}
        for number, owner in owners.items():
            if owner is None:
                continue
            identity = owner.partition(" ")[2]
            targets[number] = self._target(board, identity, is_target_lost=is_target_lost)
        for number, target in targets.items():
            self._end_move(board, number, target, str(owners[number]), having)
        self._serve(board)

    def _end_move(
        self, board: str, number: int, target: int | None, owner: str, having: Mapping[int, str]
    ) -> None:
        """End the move of a board from a store to `target`. `having` has the stores that had the
        board at the beginning, each with the unique id of its board."""
        source, uid = self._stores[number].store, having[number]
        own = owner_of(self._token(), owner.partition(" ")[2])
        source.copies.seize(board, own)
        if target is None:
            source.copies.unblock(board, own)
        elif having.get(target) == uid and not has_board(self._stores[target].store, board):
            # ending a later move, away from the target, has just removed the board from the target
            remove(source, board, uid)
        elif self._is_switched(board, number, target, uid):
            remove(source, board, uid)
        else:
            remove(self._stores[target].store, board, uid)
            source.copies.unblock(board, own)

    def _target(self, board: str, identity: str, *, is_target_lost: bool) -> int | None:
        """Return the number of the store to which the board was being copied; None if the store is
        lost. Raises MoveRefused if this service does not have the store."""
        for number, each in enumerate(self._stores):
            if each.identity == identity:
                return number
        if is_target_lost:
            return None
        target = f"to {identity}" if identity else "by a service of an earlier release"
        raise MoveRefused(
            f"{quoted(board)} was being moved {target}, and the board may be complete in a store "
            "that this service does not have. Add that store to the placement; if it is lost with "
            "everything that was counted there, take the board over with --target-lost"
        )

    def _is_switched(self, board: str, number: int, target: int, uid: str) -> bool:
        """Return whether the board was switched, so that it has to be served from the target: the
        target has the complete board, and no sink has unsent changes. Sinks that were not moved yet
        are moved. Raises MoveRefused if a sink has unsent changes and the stores have different
        changes of the board, so that it is not known which store is up to date."""
        source, copied = self._stores[number].store, self._stores[target].store
        if not has_uid(copied, board, uid):
            return False
        is_equal = source.copies.origin(board).ends == copied.copies.origin(board).ends
        unsent = self._move_sinks(source, copied, board)
        if unsent and not is_equal:
            raise MoveRefused(
                f"{quoted(board)} has {unsent[0]}, and the stores {number + 1} and {target + 1} "
                "have different changes of it: delete the outdated one of the two boards"
            )
        return not unsent

    def _serve(self, board: str) -> None:
        """Serve a board from the store that has it. Raises UnknownBoard, and MoveRefused if several
        stores have a board of this name and the name points to none of them."""
        numbers = [n for n, each in enumerate(self._stores) if has_board(each.store, board)]
        if not numbers:
            raise UnknownBoard(f"there is no board {quoted(board)}")
        if (number := self._placement.number_of(board)) not in numbers:
            if len(numbers) > 1:
                names = " and ".join(str(each + 1) for each in numbers)
                raise MoveRefused(
                    f"the stores {names} have a board {quoted(board)}: delete all but one"
                )
            number = numbers[0]
        is_named = self._placement.pattern_number_of(board) == number
        route = None if is_named else BoardRoute(self._stores[number].identity)
        if route != self._routes.all.get(board):
            self._routes.store(board, route)
        self._placement.move(board, number)
