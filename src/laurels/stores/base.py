"""The protocols of a store: what the verbs and the service stand on, be the boards in this process,
on an index server, or behind a service."""

from collections.abc import Awaitable, Callable, Collection, Sequence
from typing import Any, Protocol, TypeVar

from msgspec import Struct

from laurels.core.changes.answers import ChangePage
from laurels.core.clock_status import ClockStatus
from laurels.core.commands import Command
from laurels.core.index import Index
from laurels.core.queries import Query
from laurels.core.ranking_key import RankingKey
from laurels.core.receipt import Receipts
from laurels.core.stats import BoardStats, CheckReport, Stats, StoreFigures
from laurels.model.board import Board
from laurels.wire.audit_entry import AuditStore
from laurels.wire.keys import KeyStore, SharedKeyStore

T = TypeVar("T")

ChangeToken = tuple[int, int, int, bool]


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

    def changes(
        self, board: str, after: str | None, limit: int, *, initial: bool = False
    ) -> ChangePage:
        """Return the changes of a board after a cursor: from the oldest that is kept without one,
        none yet with `now`; with `initial` all present entries come before those. Raises
        ChangesNotKept, ChangesExpired, CursorDiverged, InvalidCursor, InvalidLimit."""

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

    def changes_async(
        self, board: str, after: str | None, limit: int, *, initial: bool = False
    ) -> Awaitable[ChangePage]:
        """Return an awaitable of what `changes` returns."""

    def look_async(self, look: Callable[[bool], T]) -> Awaitable[T]:
        """Return an awaitable of what a short read of this store returns: `look(False)` on the loop
        where nothing is in its way, else `look(True)`, which may wait, in a thread."""

    def close_async(self) -> Awaitable[None]:
        """Return an awaitable of `close`."""


class Servable(AsyncStore, Protocol):
    """A store that a service can stand on."""

    @property
    def is_exact(self) -> bool:
        """Whether a change token changes at once with its board."""

    @property
    def risks(self) -> Sequence[str]:
        """Sentences on how what was counted may be lost."""

    def submit_one(
        self, board: str, event: Any, window: str | None, scope: Sequence[str] | None
    ) -> Awaitable[tuple[Receipts, int]]:
        """Submit an event, together with others that ask for the same; return the receipts of them
        all and its place there. One that is refused is no error here."""

    def change_token(self, board: str) -> ChangeToken:
        """Return a token that changes whenever the board may have another list; O(1)."""

    def follow(self, boards: Collection[str]) -> Awaitable[None]:
        """Bring the change tokens of boards up to date, where they are not exact."""

    def ensure_healthy(self) -> Awaitable[None]:
        """Raise what keeps the boards from being read or written."""

    def figures(self, sees: Callable[[str], bool] | None) -> Awaitable[StoreFigures]:
        """Return the figures of the boards that a caller sees; None sees the whole store."""

    def observe(self, told: Callable[[int, float], None], clock: Callable[[], float]) -> None:
        """Have `told` called after each commit: how many events it had and how many seconds it took
        by a clock."""


class ThreadedStore(Servable, Protocol):
    """A store on an event loop of its own, which runs in a thread."""

    def run(self, coroutine: Any) -> Any:
        """Return the result of a coroutine that runs on that loop."""


class Backing(Struct, frozen=True):
    """The parts of a service: a store, the keys to it, and its audit log."""

    store: Servable
    keys: KeyStore
    audit: AuditStore
    shared_keys: SharedKeyStore | None = None
    """The same keys, where other processes change them."""
