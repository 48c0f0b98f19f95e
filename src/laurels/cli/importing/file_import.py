"""Import one file: open it, parse its format, and count its events."""

import time
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from msgspec import Struct

import laurels
from laurels.cli.errors import Usage
from laurels.cli.interrupts import Interrupts
from laurels.cli.progress import SourceProgress
from laurels.cli.texts import readable
from laurels.errors import LaurelsError
from laurels.model.validation import is_unicode

from .csv_rows import CsvRows
from .json_rows import JsonRows, looks_like_json
from .lines import Lines, opened_source
from .progress import Tally
from .reading import Mapping, Reject, SourceRow
from .rejects import RejectsFile
from .source import ImportSettings, SourceImport

if TYPE_CHECKING:
    from rich.progress import Progress

STDIN = "-"

Format = Literal["auto", "csv", "jsonl"]


class Request(Struct, frozen=True):
    """The options by which the files of one command are read and counted.

    If `source` or `rejects` is None, it is derived from the path of each file.
    """

    board: str
    mapping: Mapping
    form: Format
    header: bool
    delimiter: str
    in_time_order: bool
    source: str | None
    rejects: Path | None
    settings: ImportSettings


class FileResult(Struct, frozen=True):
    """The result of importing one file.

    `last_line` is the last line read. `resumed_after` is the line after which this run began.
    `source` is None if the file cannot be resumed. `error` is the error that ended the import
    early; it is None after Ctrl-C.
    """

    file: str
    source: str | None
    resumed_after: int
    last_line: int
    tally: Tally
    rejects_file: str | None
    interrupted: bool
    error: LaurelsError | None
    seconds: float


def import_file(
    lb: laurels.Leaderboards,
    file: str,
    request: Request,
    interrupts: Interrupts,
    progress: "Progress | None",
) -> FileResult:
    """Import one file, `-` for standard input; Ctrl-C ends the import between two commits.

    An error before the first line is raised, with the file's name in its message. A later error is
    returned in the result, with the counts up to it.
    """
    path = None if file == STDIN else Path(file)
    name = readable(file)
    began = time.perf_counter()
    with ExitStack() as stack:
        with _naming(name):
            source = _source_name(path, request.source)
            rejects_path = request.rejects or _rejects_path(path, request.board, source)
            rejects = stack.enter_context(closing(RejectsFile(rejects_path, request.board, source)))
            opened = stack.enter_context(opened_source(path))
            run = SourceImport(
                lb,
                request.board,
                opened.lines,
                _rows(opened.lines, request),
                key=None if source is None else f"import:{request.board}:{source}",
                rejects=rejects,
                interrupts=interrupts,
                watcher=SourceProgress(progress, name, opened),
                settings=request.settings,
            )
            if (
                path is not None
                and path.is_file()
                and not (request.settings.late_ok or request.in_time_order)
            ):
                with opened_source(path) as again:
                    run.check_ahead(again.lines, _rows(again.lines, request))
        ended = _ended(run, name, in_time_order=request.in_time_order)
        if isinstance(ended, LaurelsError) and not run.tally.lines:
            raise ended
        return FileResult(
            file=name,
            source=source,
            resumed_after=run.tally.resumed_after,
            last_line=opened.lines.line,
            tally=run.tally,
            rejects_file=readable(rejects.path) if run.tally.rejected else None,
            interrupted=isinstance(ended, KeyboardInterrupt),
            error=ended if isinstance(ended, LaurelsError) else None,
            seconds=time.perf_counter() - began,
        )


def _ended(
    run: SourceImport, name: str, *, in_time_order: bool
) -> LaurelsError | KeyboardInterrupt | None:
    """Run an import. Return the error that ended it early, or None."""
    try:
        with _naming(name):
            run.run_in_time_order() if in_time_order else run.run_as_written()
    except (LaurelsError, KeyboardInterrupt) as ended:
        return ended
    return None


@contextmanager
def _naming(file: str) -> Iterator[None]:
    """Prefix the message of any error with the name of the file."""
    try:
        yield
    except LaurelsError as error:
        error.what = f"{file}: {error.what}"
        raise


def _source_name(path: Path | None, named: str | None) -> str | None:
    """Return the name under which the position in a file is stored. A pipe has a name only if the
    user gives one."""
    if named is not None:
        return named
    if path is None or not path.is_file():
        return None
    whole = str(path.resolve())
    if not is_unicode(whole):
        raise Usage("the path is not UTF-8, so no position can be stored: give --source NAME")
    return whole


def _rejects_path(path: Path | None, board: str, source: str | None) -> Path:
    """Return the path of the rejects file of one import, named after its file and board.

    A number is added if a pipe without a source name would use a file that exists already.
    """
    if path is not None and path.is_file():
        return path.with_name(f"{path.name}.{board}.rejects.csv")
    piped = Path(f"stdin.{board}.rejects.csv")
    number = 1
    while source is None and piped.exists():
        number += 1
        piped = Path(f"stdin-{number}.{board}.rejects.csv")
    return piped


def _rows(lines: Lines, request: Request) -> Iterable[SourceRow | Reject]:
    if request.form == "jsonl" or (request.form == "auto" and looks_like_json(lines)):
        return JsonRows(lines, request.mapping)
    return CsvRows(lines, request.mapping, delimiter=request.delimiter, header=request.header)
