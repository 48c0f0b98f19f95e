"""One file of an `import`: opened, read as it is written, and counted."""

import time
from collections.abc import Iterable
from pathlib import Path
from typing import Literal

from msgspec import Struct
from rich.progress import Progress

import laurels

from .csv_rows import CsvRows
from .failures import SourceChanged, SourceUnreadable
from .importing import SourceImport, Tally
from .interrupts import Interrupts
from .json_rows import JsonRows, looks_like_json
from .lines import Lines, opened_source
from .progress import SourceProgress
from .reading import Mapping, Reject, Row
from .rejects import RejectsFile

STDIN = "-"

Format = Literal["auto", "csv", "jsonl"]


class Request(Struct, frozen=True):
    """How the files of one command are to be read and counted.

    `source` and `rejects` are what the user said; None leaves both to the file's path.
    """

    board: str
    mapping: Mapping
    form: Format
    header: bool
    delimiter: str
    in_time_order: bool
    batch: int
    source: str | None
    rejects: Path | None


class FileResult(Struct, frozen=True):
    """What became of one file. `last_line` is where the reading stands, `resumed_after` where
    this run began; `source` is None where the file cannot be resumed."""

    file: str
    source: str | None
    resumed_after: int
    last_line: int
    tally: Tally
    rejects_file: str | None
    interrupted: bool
    seconds: float


def import_file(
    lb: laurels.Leaderboards,
    file: str,
    request: Request,
    interrupts: Interrupts,
    progress: Progress | None,
) -> FileResult:
    """Counts one file, `-` for standard input; Ctrl-C ends it between two commits."""
    path = None if file == STDIN else Path(file)
    source = _source_name(path, request.source)
    rejects = RejectsFile(request.rejects or _rejects_path(path))
    began = time.perf_counter()
    interrupted = False
    try:
        with opened_source(path) as opened:
            lines = opened.lines
            run = SourceImport(
                lb,
                request.board,
                lines,
                _rows(lines, request),
                key=None if source is None else f"import:{request.board}:{source}",
                rejects=rejects,
                batch=request.batch,
                interrupts=interrupts,
                watcher=SourceProgress(progress, file, opened),
            )
            try:
                run.run_in_time_order() if request.in_time_order else run.run_as_written()
            except KeyboardInterrupt:
                interrupted = True
    except (SourceChanged, SourceUnreadable) as error:
        raise type(error)(f"{file}: {error.what}") from error
    finally:
        rejects.close()
    return FileResult(
        file=file,
        source=source,
        resumed_after=run.tally.resumed_after,
        last_line=lines.line,
        tally=run.tally,
        rejects_file=str(rejects.path) if run.tally.rejected else None,
        interrupted=interrupted,
        seconds=time.perf_counter() - began,
    )


def _source_name(path: Path | None, named: str | None) -> str | None:
    """What the position of a file is kept under; pipes have none unless the user names them."""
    if named is not None:
        return named
    return str(path.resolve()) if path is not None and path.is_file() else None


def _rejects_path(path: Path | None) -> Path:
    if path is None or not path.is_file():
        return Path("stdin.rejects.csv")
    return path.with_name(f"{path.name}.rejects.csv")


def _rows(lines: Lines, request: Request) -> Iterable[Row | Reject]:
    if request.form == "jsonl" or (request.form == "auto" and looks_like_json(lines)):
        return JsonRows(lines, request.mapping)
    return CsvRows(lines, request.mapping, delimiter=request.delimiter, header=request.header)
