"""Boards in a store that their names do not point to. They are not served."""

import asyncio
from collections.abc import Callable, Iterable, Sequence

from laurels.errors.placement import BoardElsewhere
from laurels.model.validation import quoted

from .placed import PlacedStore
from .placement import Placement

NAMED = 20
"""The maximum number of boards that one warning names."""


class MisplacedBoards:
    """Boards that are in one store while the placement names another store for them. `warn` is
    called with each sentence for the operator."""

    def __init__(
        self,
        stores: Sequence[PlacedStore],
        placement: Placement,
        warn: Callable[[str], None],
    ) -> None:
        self._stores = stores
        self._placement = placement
        self._warn = warn
        self._boards: set[tuple[int, str]] = set()
        """The misplaced boards: the number of the store that has the board, and the board's
        name."""

    def __bool__(self) -> bool:
        return bool(self._boards)

    async def find(self, stores: Iterable[PlacedStore]) -> None:
        """Find the boards that are in a store to which their names do not point, and warn of
        them. They are not served."""
        for placed in stores:
            number = self._stores.index(placed)
            by_target: dict[int, list[str]] = {}
            for board in await asyncio.to_thread(placed.definitions):
                target = self._placement.number_of(board.name)
                if target != number:
                    by_target.setdefault(target, []).append(board.name)
            for target, names in by_target.items():
                await self._note(number, target, names)

    async def _note(self, number: int, target: int, names: Sequence[str]) -> None:
        """Warn of boards in the store `number` whose names point to the store `target`."""
        copied = {each.name for each in await asyncio.to_thread(self._stores[target].definitions)}
        source, to = self._stores[number].name, self._stores[target].name
        missing = [name for name in names if name not in copied]
        if missing:
            self._boards.update((number, name) for name in missing)
            self._warn(
                f"not served: {_listed(missing)} are in {source}, but their names point to {to}; "
                f"stop the server, run `laurels copy {source} {to} {_options(missing)}`, and "
                "delete them in the source"
            )
        if old := [name for name in names if name in copied]:
            self._warn(
                f"not served: {_listed(old)} in {source} have the names of boards in {to}; delete "
                "them in the source if they were copied"
            )

    def ensure_creatable(self, board: str) -> None:
        """Raise BoardElsewhere if a board of this name is in a store that the name does not point
        to. A new board of that name would hide the scores of the existing one."""
        for number, name in list(self._boards):
            if name != board:
                continue
            target = self._stores[self._placement.number_of(board)]
            if _has(self._stores[number], board) and not _has(target, board):
                raise BoardElsewhere(
                    f"the board {quoted(board)} is in a store that its name does not point to"
                )
            self._boards.discard((number, name))


def _has(placed: PlacedStore, board: str) -> bool:
    return any(each.name == board for each in placed.definitions())


def _listed(names: Sequence[str]) -> str:
    """Return "the boards" and their names, at most NAMED of them, for use in a sentence."""
    more = "" if len(names) <= NAMED else f" and {len(names) - NAMED} more"
    return f"the boards {', '.join(map(quoted, names[:NAMED]))}{more}"


def _options(names: Sequence[str]) -> str:
    return " ".join([f"--board {name}" for name in names[:NAMED]])
