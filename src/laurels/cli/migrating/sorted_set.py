"""Imports a sorted set of a Redis server into a board, and then compares the board with the set."""

import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

import laurels
from laurels.cli.boards.scoping import scope_words
from laurels.cli.errors import Usage
from laurels.cli.importing.rejects import RejectsFile
from laurels.cli.interrupts import Interrupts
from laurels.cli.progress import ScanProgress
from laurels.cli.texts import readable
from laurels.errors import LaurelsError
from laurels.model.validation import is_unicode
from laurels.stores.redis.connection.urls import redis_address

from .comparing import Comparison, ComparisonResult
from .source import RedisSource, opened_redis
from .taking_over import Takeover, TakeoverResult
from .totals import Totals

if TYPE_CHECKING:
    from rich.progress import Progress

NOT_EQUAL = 1
INTERRUPTED = 130


class SetRequest(Struct, frozen=True):
    """The sorted set to import, and the options of the import.

    If `source` or `rejects` is None, a default is used. `at_ms` is recorded as the time at which
    the totals were reached. The totals are set in the scope of `labels`.
    """

    url: str
    key: str
    data_key: str | None
    with_data: bool
    at_ms: int
    batch: int
    source: str | None
    rejects: Path | None
    labels: dict[str, str] = {}


class SetResult(Struct, frozen=True):
    """The result of importing a sorted set.

    `compared` is None if the import ended before the comparison. `error` is the error that ended
    the import early; it is None after Ctrl-C.
    """

    name: str
    source: str
    takeover: TakeoverResult
    compared: ComparisonResult | None
    rejects_file: str | None
    interrupted: bool
    error: LaurelsError | None
    seconds: float

    @property
    def code(self) -> int:
        """The exit code of the command if no error ended it."""
        if self.interrupted:
            return INTERRUPTED
        compared, taken = self.compared, self.takeover
        left = taken.rejected or taken.data_left or compared is None or compared.left_out
        return NOT_EQUAL if left or compared is None or not compared.agrees else 0


def import_set(
    lb: laurels.Leaderboards,
    board: laurels.Board,
    request: SetRequest,
    interrupts: Interrupts,
    progress: "Progress | None",
) -> SetResult:
    """Import a sorted set, then compare it with the board; Ctrl-C ends the import between two
    commits.

    An error before the first member is raised; a later error is returned in the result.
    """
    address = redis_address(request.url)
    name = f"{address} {readable(request.key)}"
    source = request.source or f"{name}{scope_words(request.labels, None)}"
    if not is_unicode(source):
        raise Usage("the key is not UTF-8, so no position can be stored: give --source NAME")
    began = time.perf_counter()
    with ExitStack() as stack:
        totals = Totals(lb, board, request.at_ms, request.labels)
        opened = stack.enter_context(
            opened_redis(address, request.key, request.data_key, with_data=request.with_data)
        )
        path = request.rejects or Path(f"redis.{board.name}.rejects.csv")
        rejects = stack.enter_context(closing(RejectsFile(path, board.name, source)))
        watch = ScanProgress(progress, name, opened.size())
        takeover = Takeover(
            lb,
            board.name,
            opened,
            totals,
            key=f"import:{board.name}:{source}",
            rejects=rejects,
            batch=request.batch,
            interrupts=interrupts,
            watch=watch.report,
        )
        comparison = _comparison(opened, totals, request, interrupts, watch)
        ended = _ended(takeover, comparison, watch, name)
        if isinstance(ended, LaurelsError) and not takeover.tally.read:
            raise ended
        noted = takeover.tally.reasons.total()
        return SetResult(
            name=name,
            source=source,
            takeover=takeover.tally,
            compared=comparison.result if ended is None else None,
            rejects_file=readable(rejects.path) if noted else None,
            interrupted=isinstance(ended, KeyboardInterrupt),
            error=ended if isinstance(ended, LaurelsError) else None,
            seconds=time.perf_counter() - began,
        )


def _comparison(
    source: RedisSource,
    totals: Totals,
    request: SetRequest,
    interrupts: Interrupts,
    watch: ScanProgress,
) -> Comparison:
    return Comparison(
        source, totals, batch=request.batch, interrupts=interrupts, watch=watch.report
    )


def _ended(
    takeover: Takeover, comparison: Comparison, watch: ScanProgress, name: str
) -> LaurelsError | KeyboardInterrupt | None:
    """Run an import and its comparison. Return the error that ended them early, or None."""
    try:
        with _naming(name):
            takeover.run()
            watch.restart(f"{name}, compared")
            comparison.run()
    except (LaurelsError, KeyboardInterrupt) as ended:
        return ended
    return None


@contextmanager
def _naming(name: str) -> Iterator[None]:
    """Prefix the message of any error with the name of the set."""
    try:
        yield
    except LaurelsError as error:
        error.what = f"{name}: {error.what}"
        raise
