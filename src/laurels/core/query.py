"""The definition of a query: a question about a board, with its form in Python and over HTTP.

A query is a type. Its fields are the arguments, in canonical form. `plan` returns the requests to a
board, and the function that makes the answer from their results. `path`, `body` and `returns`
define the query's form over HTTP.
"""

from abc import ABCMeta, abstractmethod
from typing import Any, ClassVar, Generic, TypeVar

from msgspec import Struct, StructMeta
from msgspec.structs import force_setattr

from laurels.errors import InvalidRank, LaurelsError
from laurels.model.labels import LabelPairs

from .payouts import PayoutReads, PayoutRequest
from .query_context import QueryContext
from .read_plan import ReadPlan, integer_argument
from .reads import RankingView

T = TypeVar("T")
MAX_INTEGER = 2**63 - 1
"""The greatest integer in a query."""


class AbstractStructMeta(StructMeta, ABCMeta):
    """The metaclass of Structs with abstract methods."""


class Query(Struct, Generic[T], frozen=True, kw_only=True, metaclass=AbstractStructMeta):
    """A question about one board, with an answer of type T.

    Each field is checked when the query is made, so that an invalid argument raises the same error
    in every store.
    """

    verb: ClassVar[str]
    """The method of `Leaderboards` for this query."""
    path: ClassVar[str]
    """The part of the query's path over HTTP that follows `/v1/boards/{board}/`."""
    returns: ClassVar[Any]
    """The type of the answer that is sent."""
    absent: ClassVar[type[LaurelsError] | None] = None
    """The error that is sent if the answer is None."""
    body: ClassVar[str | None] = None
    """The field that is sent as the body of a POST; the other fields are parameters."""
    reads_positions: ClassVar[bool] = False
    """Whether the plan needs the positions of the board's sources."""
    outlives_board: ClassVar[bool] = False
    """Whether the query has an answer about a board that was deleted: see `without_board`."""
    reads_files: ClassVar[bool] = False
    """Whether the answer is read from files, so that the plan is carried out without the lock of a
    store and not on an event loop. Such a plan has no requests."""
    shared: ClassVar[bool] = False
    """Whether many clients make the same query, so that the answer is worth caching even where
    computing it takes microseconds."""
    is_administrative: ClassVar[bool] = False
    """Whether only keys that administer may make the query."""
    cacheable: ClassVar[bool] = False
    """Whether an answer may be repeated from memory, as `max_age` permits. All fields must be
    hashable."""

    @property
    def size(self) -> int:
        """About how many entries the query reads. A query that reads many would block an event
        loop, so it is answered in a thread."""
        return 1

    @property
    def is_past(self) -> bool:
        """Whether the query names a period, which may have to be read from an archive."""
        return False

    @abstractmethod
    def plan(self, now: QueryContext) -> ReadPlan[T]:
        """Return the plan: the requests to a board, and the function that makes the answer."""

    def without_board(self, payouts: PayoutReads | None, board: str, now_ms: int) -> T | None:
        """Return the answer about a board that does not exist; None if the query then has no
        answer."""
        return None

    def payout_request(self, board: str) -> PayoutRequest | None:
        """Return a request for the payouts that the answer about a board needs; None if it needs
        none. A store that cannot read payouts while it carries out the plan reads them in
        advance."""
        return None

    def to_answer(self, result: T) -> Any:
        """Return the answer that is sent for a result. Raises `absent` if the result is None."""
        return result

    def from_answer(self, answer: Any) -> T:
        """Return the result of the query from the answer that was sent."""
        result: T = answer
        return result

    def _ensure(self, name: str, low: int, high: int | None, refusal: type[LaurelsError]) -> None:
        """Raise the error made by `refusal` if a field is not an integer within bounds. Queries are
        stored and sent in forms that have no integers above MAX_INTEGER."""
        value = getattr(self, name)
        if high is None and type(value) is int and value > MAX_INTEGER:
            high = MAX_INTEGER
        if type(value) is not int or value < low or (high is not None and value > high):
            force_setattr(self, name, integer_argument(name, value, low, high, refusal))

    def _ensure_rank(self, name: str) -> None:
        if getattr(self, name) is not None:
            self._ensure(name, 1, None, InvalidRank)


class ScopedQuery(Query[T], frozen=True, kw_only=True):
    """A query about one scope, given by its `labels`, or about the ranking of the values of the
    label `by`."""

    labels: LabelPairs = ()
    by: str | None = None


class RankingQuery(ScopedQuery[T], frozen=True, kw_only=True):
    """A query about the ranking of one window in one period. The defaults are the board's first
    window and the running period. `revision` is that of a sealed period, by default the newest."""

    window: str | None = None
    period: str | None = None
    revision: int | None = None

    @property
    def is_past(self) -> bool:
        return self.period is not None

    def _view(self, now: QueryContext, after: str | None = None) -> RankingView:
        view = now.view(self.window, self.period, after, labels=self.labels, by=self.by)
        return view if self.revision is None else view.of_revision(self.revision)


class ListQuery(RankingQuery[T], frozen=True, kw_only=True):
    """A query for entries, which can include the members' data."""

    with_data: bool = False
