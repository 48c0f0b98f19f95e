"""What the verbs stand on: a store, be its boards in this process or on an index server."""

import threading
from asyncio import Future
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol, TypeVar, Unpack

from laurels.core.board_state import BoardState
from laurels.core.clock_status import ClockStatus
from laurels.core.index import Index
from laurels.core.plan import RankingKey
from laurels.core.queries import QueryContext
from laurels.core.question import Question
from laurels.core.receipt import Receipts
from laurels.core.stats import BoardStats, CheckReport, Stats
from laurels.stores.intake.accept import How
from laurels.stores.intake.submission import Submission
from laurels.stores.intake.writes import FoldedWrite

T = TypeVar("T")


class Store(Protocol):
    """Boards that are read and written by any thread. Every method raises Closed after `close`
    and Forked in a child of the process that opened it."""

    def named(self, board: str) -> BoardState:
        """Return a board as it is known here. Raises UnknownBoard."""

    def newest(self, board: str) -> BoardState:
        """Return a board as it is now, also where another process changed it."""

    def boards(self) -> list[BoardState]:
        """Return all boards, in the order of their names; to be asked while `reading`."""

    def reading(self) -> AbstractContextManager[Any]:
        """Return what keeps commits out while it is entered. Raises when the store cannot be
        used."""

    def ask(self, board: str, asked: Callable[[QueryContext], Question[T]]) -> T:
        """Return the answer to a question about a board, all of one state."""

    def ask_at_once(self, board: str, asked: Callable[[QueryContext], Question[T]]) -> T:
        """Return the same, but raise NotReady where much is left to do before."""

    def cached_view(
        self, board: str, window: str | None, look: Callable[[Index, RankingKey], T]
    ) -> T | None:
        """Return what a look at a ranking finds, where that takes no more; else None."""

    def submission(
        self, board: str, events: Iterable[Any], window: str | None, **how: Unpack[How]
    ) -> Submission:
        """Judge the form of events and make them columns."""

    def write(self, write: Any) -> Any:
        """Carry out a write and return its result; raise what refused it."""

    def position(self, board: str, source: str) -> str | None:
        """Return the position committed last for a source, None without one."""

    def board_stats(self, board: str, *, patient: bool = True) -> BoardStats:
        """Return the figures of a board."""

    def stats(self) -> Stats:
        """Return the figures of all boards; to be asked while `reading`."""

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


class LoopStore(Store, Protocol):
    """A store that is also written by tasks of an event loop."""

    paced: bool
    """Whether a task of the loop sees to what time makes due."""

    def pace(self, limit: int) -> tuple[int, int]:
        """Do a share of what time has made due; return what is left, and the milliseconds until
        there is more. Blocks."""

    def share_async(
        self, board: str, event: Any, window: str | None, scope: Sequence[str] | None
    ) -> Future[tuple[Receipts, int]] | None:
        """Accept and commit an event together with others that ask for the same; return the
        receipts of them all and its place there. None, with nothing done, for an event that has to
        be accepted by itself."""

    def lock_at_once(self) -> "threading.RLock | None":
        """Return the lock of `reading`, held, where nobody else holds it, else None: whoever asks
        releases it."""

    def write_async(self, write: FoldedWrite) -> Any:
        """Return an awaitable of what `write` returns."""
