"""The protocols of a store: what the verbs and the service stand on, be the boards in this process,
on an index server, or behind a service."""

from asyncio import Future
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Protocol, TypeVar

from laurels.core.clock_status import ClockStatus
from laurels.core.commands import Command
from laurels.core.index import Index
from laurels.core.queries import Query
from laurels.core.ranking_key import RankingKey
from laurels.core.receipt import Receipts
from laurels.core.stats import BoardStats, CheckReport, Stats
from laurels.model.board import Board

T = TypeVar("T")


class Store(Protocol):
    """Boards that are read and written by any thread. Every method raises Closed after `close`
    and Forked in a child of the process that opened it."""

    def ask(self, board: str, query: Query[T]) -> T:
        """Return the answer to a query about a board, all of one state."""

    def cached_view(
        self, board: str, window: str | None, look: Callable[[Index, RankingKey], T]
    ) -> T | None:
        """Return what a look at the running period of a window finds, where the ranking is in this
        process and nothing is due; else None, and `ask` has to answer."""

    def write(self, command: Command[T]) -> T:
        """Carry out a command and return its result; raise what refused it."""

    def definition(self, name: str) -> Board:
        """Return the definition of a board, also where another process changed it. Raises
        UnknownBoard."""

    def definitions(self) -> list[Board]:
        """Return all definitions, in the order of their names."""

    def position(self, board: str, source: str) -> str | None:
        """Return the position committed last for a source, None without one."""

    def board_stats(self, board: str, *, patient: bool = True) -> BoardStats:
        """Return the figures of a board; unless `patient`, raise NotReady where much has to be done
        before."""

    def stats(self) -> Stats:
        """Return the figures of all boards."""

    def check(self) -> CheckReport:
        """Compare what is stored with what it follows from. Raises CheckFailed."""

    def rebuild(self) -> None:
        """Put right what is stored by what it follows from."""

    def snapshot(self) -> int:
        """Take a snapshot and return its offset. Raises NothingToBackUp, StorageFailed."""

    def clock_status(self) -> ClockStatus:
        """Return how the store stands to its clock."""

    def accept_clock(self) -> ClockStatus:
        """Follow the clock wherever it has leapt; return the status after that."""

    def close(self) -> None:
        """Carry out what is queued and close; another close does nothing."""


class AsyncStore(Store, Protocol):
    """A store that is also read and written by tasks of an event loop, which never wait there for a
    disk or a server."""

    def start(self) -> None:
        """Begin what the store does on the loop that runs."""

    def ask_async(self, board: str, query: Query[T]) -> Awaitable[T]:
        """Return an awaitable of what `ask` returns."""

    def write_async(self, command: Command[T]) -> Awaitable[T]:
        """Return an awaitable of what `write` returns."""

    def look_async(self, look: Callable[[bool], T]) -> Awaitable[T]:
        """Return an awaitable of what a short read of this store returns: `look(False)` on the loop
        where nothing is in its way, else `look(True)`, which may wait, in a thread."""

    def close_async(self) -> Awaitable[None]:
        """Return an awaitable of `close`."""


class Servable(AsyncStore, Protocol):
    """A store that a service can stand on."""

    def submit_one(
        self, board: str, event: Any, window: str | None, scope: Sequence[str] | None
    ) -> "Awaitable[tuple[Receipts, int]] | Future[tuple[Receipts, int]]":
        """Submit an event, together with others that ask for the same; return the receipts of them
        all and its place there. One that is refused is no error here."""
