"""The encoded answers of several stores."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from laurels.core.board_version import BoardVersion
from laurels.core.index import Offset
from laurels.core.query import Query
from laurels.stores.answers.answer import AnswerObserver, EncodedAnswer
from laurels.stores.answers.sessions import Floor

from .placed import PlacedStore


class RoutedAnswers:
    """Implementation of `AnswerSource`: the answers about a board come from its store. `moment` is
    shared by all stores, so that it orders the queries and writes of the whole process."""

    def __init__(
        self,
        stores: Sequence[PlacedStore],
        store_of: Callable[[str], PlacedStore],
        moment: Callable[[], int],
    ) -> None:
        self._stores = stores
        self._store_of = store_of
        self._moment = moment
        self._observer: AnswerObserver | None = None

    @property
    def nbytes(self) -> int:
        """The size of the cached answers of all stores in bytes."""
        return sum([each.opened.answers.nbytes for each in self._stores if each.opened])

    def answer(
        self, board: str, query: Query[Any], floor: Floor, *, packed: bool
    ) -> Awaitable[EncodedAnswer]:
        """Return an awaitable of the answer to a query. Raises IndexUnavailable if the board's
        store does not answer."""
        return self._store_of(board).ready.answers.answer(board, query, floor, packed=packed)

    def keeps(self, board: str) -> bool:
        """Return whether answers about a board may be cached, so that they may be out of date."""
        opened = self._store_of(board).opened
        return opened is not None and opened.answers.keeps(board)

    def moment(self) -> int:
        """Return a number that is greater than all those that were returned before, for any
        store."""
        return self._moment()

    def version_after(self, board: str, offset: Offset) -> BoardVersion | None:
        """Return the version of a board after a write at an offset; None if answers about the board
        have no version, or the version is not known."""
        opened = self._store_of(board).opened
        return None if opened is None else opened.answers.version_after(board, offset)

    def observe(self, observer: AnswerObserver) -> None:
        """Call `observer` for each answer about a board whose answers are cached."""
        self._observer = observer
        for each in self._stores:
            self.observe_late(each)

    def observe_late(self, store: PlacedStore) -> None:
        """Call the observer also for the answers of a store that was opened after `observe`."""
        if self._observer is not None and store.opened is not None:
            store.opened.answers.observe(self._observer)
