"""One of the stores behind a service, which may be down while the others work.

A store on another machine is *watched*: it is checked twice a second whether the store answers.
While the store does not answer, calls of it fail at once instead of waiting, so that they neither
occupy threads nor delay calls about the boards of other stores. A store that did not answer when
the service started is opened when it first answers.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Sequence
from contextlib import suppress

from msgspec import Struct

from laurels.errors import LaurelsError, Unavailable
from laurels.errors.index_server import IndexUnavailable
from laurels.model.board import Board
from laurels.stores.base import AnswerSource, Servable

WATCH_SECONDS = 0.5
FOLLOW_SECONDS = 1.0
"""The number of seconds after which `follow` stops waiting for the change tokens of a store, so
that those of other stores are not delayed."""


class OpenedStore(Struct, frozen=True):
    """A store, and the source of its encoded answers."""

    store: Servable
    answers: AnswerSource


OpenStore = Callable[[], Awaitable[OpenedStore]]


class PlacedStore:
    """A store behind a service.

    `name` is its URL without credentials, for the operator; `identity` is the same for all URLs of
    the store. `opened` is None as long as the store has never answered. In that case, `failure` is
    the reason, and `open_store` is called to open the store.
    """

    def __init__(
        self,
        name: str,
        identity: str,
        opened: OpenedStore | None,
        *,
        is_watched: bool = False,
        open_store: OpenStore | None = None,
        failure: LaurelsError | None = None,
    ) -> None:
        self.name = name
        self.identity = identity
        self.opened = opened
        self.is_watched = is_watched
        """Whether the store is another process, so that it may stop answering."""
        self._open_store = open_store
        self._failure = failure
        self.problem: LaurelsError | None = None
        """The error that prevents writes to a store that answers, as of the last check."""
        self._known: dict[str, Board] = {}
        self._slow_follow: asyncio.Future[None] | None = None
        """An update of change tokens that took too long and may still be running."""

    @property
    def failure(self) -> LaurelsError | None:
        """The reason why the store does not answer; None if it does."""
        return self._failure

    @property
    def ready(self) -> OpenedStore:
        """The store and its answers. Raises IndexUnavailable while the store does not answer."""
        failure, opened = self._failure, self.opened
        if failure is not None or opened is None:
            what = "the store of the board does not answer" if failure is None else failure.what
            raise IndexUnavailable(what)
        return opened

    @property
    def store(self) -> Servable:
        """The store. Raises IndexUnavailable while it does not answer."""
        return self.ready.store

    def definitions(self) -> list[Board]:
        """Return the definitions of the store's boards. While the store does not answer, return
        those that were read or written last."""
        with suppress(Unavailable):
            self._known = {board.name: board for board in self.store.definitions()}
        return list(self._known.values())

    def note(self, board: Board) -> None:
        """Record a definition that was just created or changed."""
        self._known[board.name] = board

    def forget(self, board: str) -> None:
        """Record that a board was deleted."""
        self._known.pop(board, None)

    async def watch(
        self, warn: Callable[[str], None], opened: Callable[["PlacedStore"], Awaitable[None]]
    ) -> None:
        """Check at regular intervals whether the store answers, until cancelled. `opened` is called
        when a store that did not answer at the start has been opened."""
        while True:
            await asyncio.sleep(WATCH_SECONDS)
            await self._check(warn, opened)

    async def _check(
        self, warn: Callable[[str], None], opened: Callable[["PlacedStore"], Awaitable[None]]
    ) -> None:
        before = self._failure
        try:
            if self.opened is None and self._open_store is not None:
                self.opened = await self._open_store()
                await opened(self)
            elif self.opened is not None:
                await self.opened.store.ensure_healthy()
        except LaurelsError as error:
            self._failure = error
            if before is None or type(before) is not type(error):
                warn(f"{self.name}: {error}; boards of other stores are served")
            return
        self._failure = None
        if before is not None:
            warn(f"{self.name} answers again")

    async def follow(self, boards: Collection[str]) -> None:
        """Update the change tokens of boards of this store. If reading them takes too long, it
        continues in the background, and IndexUnavailable is raised; further calls raise this error
        at once until the reading has ended."""
        if self._slow_follow is not None and not self._slow_follow.done():
            raise _answers_late()
        self._slow_follow = None
        task = asyncio.ensure_future(self.store.follow(boards))
        task.add_done_callback(_ignore_error)
        await asyncio.wait([task], timeout=FOLLOW_SECONDS)
        if not task.done():
            self._slow_follow = task
            raise _answers_late()
        task.result()


def _answers_late() -> IndexUnavailable:
    return IndexUnavailable("the store of the board answers late")


def _ignore_error(task: "asyncio.Future[None]") -> None:
    """Retrieve the error of a task, since its caller may no longer wait for it."""
    if not task.cancelled():
        task.exception()


def described(stores: Sequence[PlacedStore]) -> list[str]:
    """Return a sentence for each store that does not answer or takes no writes. Anybody may read
    the sentences, so they name a store by its number instead of its URL."""
    sentences = []
    for number, each in enumerate(stores, 1):
        name = f"store {number} of {len(stores)}"
        if each.failure is not None:
            sentences.append(f"{name} does not answer, so its boards are unavailable")
        elif each.problem is not None:
            sentences.append(f"{name} takes no writes")
    return sentences
