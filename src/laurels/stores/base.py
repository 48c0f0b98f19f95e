"""The protocols of a store, on which the verbs and the service are built. A store has its boards in
this process, on an index server, or at a service."""

from collections.abc import Awaitable, Callable, Collection, Sequence
from typing import Any, Protocol, TypeVar

from msgspec import Struct

from laurels.core.archived import VerifiedPeriod
from laurels.core.board_version import BoardVersion
from laurels.core.changes.answers import ChangedBoards, ChangePage, DeletedBoard
from laurels.core.clock_status import ClockStatus
from laurels.core.commands import Command, EraseMember
from laurels.core.due_payouts import DuePayouts
from laurels.core.hiding import HiddenMember
from laurels.core.hot_report import HotReport
from laurels.core.index import Index, Offset
from laurels.core.query import Query
from laurels.core.ranking_key import RankingKey
from laurels.core.receipt import Receipts
from laurels.core.removed_boards import RestorableBoard
from laurels.core.stats import BoardStats, CheckReport, Sealed, Stats, StoreFigures
from laurels.model.board import Board
from laurels.stores.answers.answer import AnswerObserver, EncodedAnswer
from laurels.stores.answers.sessions import Floor
from laurels.stores.board_copies import BoardCopies, MovableCopies
from laurels.wire.audit_entry import AuditStore
from laurels.wire.audit_page import AuditPage
from laurels.wire.keys import KeyStore, SharedKeyStore
from laurels.wire.placement import MovedBoard, StoreStatus, TakeoverMode

T = TypeVar("T")

ChangeToken = tuple[int, int, int, bool]


class Store(Protocol):
    """Boards that any thread can read and write. Every method raises Closed after `close`, and
    Forked in a child of the process that opened the store."""

    def ask(self, board: str, query: Query[T]) -> T:
        """Return the answer to a query about a board, made from a single state of it."""

    def cached_view(
        self, board: str, window: str | None, read: Callable[[Index, RankingKey], T]
    ) -> T | None:
        """Return the result of `read`, called with the ranking of a window's running period. Return
        None if the ranking is not in this process, or if due work has to be done first; the caller
        then has to use `ask`."""

    def write(self, command: Command[T]) -> T:
        """Carry out a command and return its result. Raises the error of a refused command."""

    def definition(self, name: str) -> Board:
        """Return the current definition of a board, including changes by other processes. Raises
        UnknownBoard."""

    def definitions(self) -> list[Board]:
        """Return all definitions, in the order of their names."""

    def changes(
        self, board: str, after: str | None, limit: int, *, initial: bool = False
    ) -> ChangePage:
        """Return the changes of a board after a cursor. With `after=None` the page starts at the
        oldest change that is kept. With `after="now"` it has no changes, only the cursor after the
        newest change. With `initial` all current entries come before the changes. The
        changes of a deleted board are found by its cursors. Raises ChangesNotKept, ChangesExpired,
        CursorDiverged, BoardDeleted, InvalidCursor, InvalidLimit."""

    def changed_boards(self, after: str | None) -> ChangedBoards:
        """Return the boards that have changes after a cursor. This takes one small read for any
        number of boards. The result may be incomplete; see `ChangedBoards`. Raises
        InvalidCursor."""

    def deleted_boards(self, source: str | None) -> list[DeletedBoard]:
        """Return the deleted boards whose changes are kept, in the order of their deletion. Each
        has the position of `source` in its changes."""

    def restorable_boards(self) -> list[RestorableBoard]:
        """Return the removed boards that can be restored, in the order of their removal. An index
        server has none."""

    def positions(self, board: str) -> dict[str, str]:
        """Return the last committed positions of all sources of a board."""

    def position(self, board: str, source: str) -> str | None:
        """Return the last committed position of a source; None if there is none."""

    def board_stats(self, board: str, *, may_wait: bool = True) -> BoardStats:
        """Return the statistics of a board. Without `may_wait`, raise NotReady if much due work has
        to be done before they can be computed."""

    def stats(self) -> Stats:
        """Return the statistics of all boards."""

    def check(self) -> CheckReport:
        """Compare the rankings with the data they are derived from. Raises CheckFailed."""

    def rebuild(self) -> None:
        """Rebuild the rankings from the data they are derived from."""

    def snapshot(self) -> int:
        """Take a snapshot and return its offset. Raises NothingToBackUp, StorageFailed."""

    def seal(self) -> Sealed:
        """Close all periods that are due, and seal the closed ones. Raises StorageFailed."""

    def verify_period(self, board: str, window: str | None, period: str | None) -> VerifiedPeriod:
        """Compute the digest of a sealed period from the archive and the log. Raises NotSealed,
        ArchiveDamaged, and the errors of a period that cannot be read."""

    def clock_status(self) -> ClockStatus:
        """Return the store's time, and by how much it differs from the clock."""

    def accept_clock(self) -> ClockStatus:
        """Accept the current clock, even if it has leapt far, and return the new status."""

    def audit(self, board: str | None, before: str | None, limit: int) -> AuditPage:
        """Return up to `limit` entries of the audit log that are older than the entry `before`,
        newest first. With `board` only entries about that board. Raises InvalidCursor,
        InvalidLimit, StorageFailed."""

    def hidden_everywhere(self, after: str | None, limit: int) -> list[HiddenMember]:
        """Return up to `limit` of the members that are hidden on all boards, in the order of their
        ids, after the member `after`."""

    @property
    def due_payouts(self) -> DuePayouts:
        """The due payouts of all boards, including deleted boards."""

    def hot(self) -> HotReport:
        """Return the boards and members that are asked for most. The report is empty if the queries
        are not counted."""

    def close(self) -> None:
        """Carry out all queued writes, and close the store. A second call does nothing."""


class PortableStore(Store, Protocol):
    """A store that boards can be copied from and to."""

    @property
    def copies(self) -> BoardCopies:
        """Access to whole boards. The methods of this object block, so they must not be called on
        an event loop."""


class AsyncStore(Store, Protocol):
    """A store that tasks of an event loop can use as well. Its asynchronous methods never make the
    loop wait for a disk or a server."""

    def start(self) -> None:
        """Start the store's background work on the running loop."""

    def ask_async(self, board: str, query: Query[T]) -> Awaitable[T]:
        """Return an awaitable of the result of `ask`."""

    def write_async(self, command: Command[T]) -> Awaitable[T]:
        """Return an awaitable of the result of `write`."""

    def changes_async(
        self, board: str, after: str | None, limit: int, *, initial: bool = False
    ) -> Awaitable[ChangePage]:
        """Return an awaitable of the result of `changes`."""

    def read_async(self, read: Callable[[bool], T]) -> Awaitable[T]:
        """Return an awaitable of the result of a short read. `read(False)` runs on the loop if
        nothing blocks it. Otherwise `read(True)`, which may wait, runs in a thread."""

    def close_async(self) -> Awaitable[None]:
        """Return an awaitable of `close`."""


class AnswerSource(Protocol):
    """The encoded answers of a store to queries. Some of them come from a cache."""

    @property
    def nbytes(self) -> int:
        """The size of the cached answers in bytes."""

    def answer(
        self, board: str, query: Query[Any], floor: Floor, *, packed: bool
    ) -> Awaitable[EncodedAnswer]:
        """Return an awaitable of the encoded answer to a query: MessagePack if `packed` is true,
        otherwise JSON. The answer is not below `floor`."""

    def keeps(self, board: str) -> bool:
        """Return whether answers about a board may be cached. Only then can they be out of date,
        and need floors."""

    def moment(self) -> int:
        """Return a number that is greater than those of all earlier calls. These numbers order the
        queries and writes of this process. A store whose answers are never out of date may return
        0."""

    def version_after(self, board: str, offset: Offset) -> BoardVersion | None:
        """Return the version of a board after a write at an offset; None if answers about the board
        have no version, or the version is not known."""

    def observe(self, observer: AnswerObserver) -> None:
        """Call `observer` for each answer about a board whose answers are cached."""


class Servable(AsyncStore, PortableStore, Protocol):
    """A store that a service can serve."""

    @property
    def copies(self) -> MovableCopies:
        """Access to whole boards."""

    @property
    def is_exact(self) -> bool:
        """Whether a change token changes at the same moment as its board's lists."""

    @property
    def audit_log(self) -> AuditStore:
        """The audit log of administrative calls."""

    @property
    def risks(self) -> Sequence[str]:
        """Sentences for the operator about cases in which counted events may be lost."""

    @property
    def outages(self) -> Sequence[str]:
        """Sentences that say which boards cannot be read or written while others can. They contain
        nothing confidential."""

    def submit_one(
        self, board: str, event: Any, window: str | None, scope: Sequence[str] | None
    ) -> Awaitable[tuple[Receipts, int]]:
        """Submit an event; it may be committed in one write with other events that have the same
        window and scope. Return the receipts of all events of the write, and the index of this
        event's receipt. If the event is refused, only its receipt says so, and no error is
        raised."""

    def ensure_erasable(self, command: EraseMember) -> None:
        """Seal what is due. If `write` would refuse to erase the member, raise its error. So a
        service with several stores erases either from all of them or from none."""

    def change_token(self, board: str) -> ChangeToken:
        """Return a token that changes whenever the board's lists may have changed; O(1)."""

    def follow(self, boards: Collection[str]) -> Awaitable[None]:
        """Update the change tokens of boards. Does nothing if `is_exact`."""

    def ensure_healthy(self) -> Awaitable[None]:
        """Raise the error that prevents the boards from being read or written, if there is such an
        error."""

    def figures(self, is_visible: Callable[[str], bool] | None) -> Awaitable[StoreFigures]:
        """Return the statistics of the boards that `is_visible` accepts. If `is_visible` is None,
        return those of the whole store."""

    def observe(self, observer: Callable[[int, float], None], clock: Callable[[], float]) -> None:
        """Call `observer` after each commit. Its arguments are the number of events in the commit
        and the seconds it took by `clock`."""


class ThreadedStore(Servable, Protocol):
    """A store with an event loop that runs in a thread of the store."""

    def run(self, coroutine: Any) -> Any:
        """Run a coroutine on the loop of the store, and return its result."""


class NoteStore(Protocol):
    """Small texts that a store keeps durably beside its boards. The methods block."""

    def note(self, key: str) -> str | None:
        """Return a note; None if there is none."""

    def set_note(self, key: str, value: str) -> None:
        """Store a note. It is durable when this returns."""


class BoardMover(Protocol):
    """The stores behind a service, and moves of boards between them. The methods block."""

    def stores(self) -> list[StoreStatus]:
        """Return all stores, the default store first."""

    def move(
        self,
        board: str,
        to: int | None,
        pause_seconds: int = 0,
        takeover: TakeoverMode = "none",
    ) -> MovedBoard:
        """Move a board to the store of this number; None stands for the store that its name points
        to. Reads do not wait. Writes to the board are held for less than a second, or for up to
        `pause_seconds` if that is longer. One write waits for at most a second; after that it and
        further writes are refused (BoardMoving) until the board is released. With `takeover`,
        first end the move of a service that was killed. Raises UnknownBoard, UnknownStore,
        NameTaken, MoveRefused, BoardMoving, and the errors of copying a board."""


class Backing(Struct, frozen=True):
    """The storage of a service: a store, its encoded answers, and the service's keys."""

    store: Servable
    answers: AnswerSource
    keys: KeyStore
    notes: NoteStore
    shared_keys: SharedKeyStore | None = None
    """The key store `keys` again, if other processes may change the keys; otherwise None."""
    mover: BoardMover | None = None
    """Moves boards between the stores behind the service; None if there is only one store."""
