"""`export`: writes a whole ranking, entry by entry."""

import csv
import errno
import io
import os
import secrets
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Literal

import typer

import laurels
from laurels.stores.local.files.private_files import NEW, open_output

from .errors import OutputFailed, Usage
from .option_groups import OptionGroup
from .options import DEFAULT_URL, OUTPUT, AsJson, BoardName, Url, WithData
from .ranking_options import RankingOptions
from .show import json_bytes, put_bytes
from .texts import numbers, readable

_FLUSH_BYTES = 1 << 16

Write = Callable[[bytes], object]


class ExportOptions(OptionGroup, frozen=True):
    """How and where to write a ranking."""

    form: Annotated[
        Literal["csv", "jsonl"] | None,
        typer.Option("--format", help="CSV (the default) or JSON Lines.", rich_help_panel=OUTPUT),
    ] = None
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE",
            help="Write to this file, which appears only when it is complete.",
            rich_help_panel=OUTPUT,
        ),
    ] = None
    data: WithData = False


def export(
    board: BoardName,
    ranking: RankingOptions,
    target: ExportOptions,
    at: Url = DEFAULT_URL,
    json: AsJson = False,
) -> int:
    """Write a whole ranking, best first.

    \b
    Examples:
      laurels export gifts > gifts.csv
      laurels export gifts --window month --period 2021-02 -o february.csv
      laurels export gifts --format jsonl --data
      laurels export gifts --label room=42 -o room-42.csv
    """
    arguments = ranking.arguments()
    if json and target.form == "csv":
        raise Usage("expected --json or --format csv, got both")
    with laurels.open(at, create=False) as lb:
        definition = lb.get(board)
        entries = lb.export(board, with_data=target.data, **arguments)
        lines = (
            _json_lines(entries)
            if json or target.form == "jsonl"
            else _csv_lines(definition, entries, data=target.data)
        )
        with _output(target.output) as write:
            _write_out(lines, write)
    return 0


def _json_lines(entries: Iterable[laurels.Entry]) -> Iterator[bytes]:
    for entry in entries:
        yield json_bytes(entry) + b"\n"


def _csv_lines(
    board: laurels.Board, entries: Iterable[laurels.Entry], *, data: bool
) -> Iterator[bytes]:
    buffer = io.StringIO(newline="")
    writer = csv.writer(buffer, lineterminator="\n")
    quoting = csv.writer(buffer, lineterminator="\n", quoting=csv.QUOTE_ALL)
    names = [column.name for column in board.columns]
    writer.writerow(["rank", "member", *names, *(["data"] if data else [])])
    for entry in entries:
        row = [str(entry.rank), entry.member, *numbers(entry.score)]
        if data:
            row.append("" if entry.data is None else json_bytes(entry.data).decode())
        (quoting if "\r" in entry.member else writer).writerow(row)
        yield buffer.getvalue().encode()
        buffer.seek(0)
        buffer.truncate()
    yield buffer.getvalue().encode()


def _write_out(lines: Iterable[bytes], write: Write) -> None:
    buffer = bytearray()
    for line in lines:
        buffer += line
        if len(buffer) >= _FLUSH_BYTES:
            write(bytes(buffer))
            buffer.clear()
    write(bytes(buffer))


@contextmanager
def _output(path: Path | None) -> Iterator[Write]:
    """Yield a function that writes to a path. A regular file is written under a temporary name, and
    renamed when it is complete; other kinds of files, such as pipes, are written directly."""
    if path is None:
        yield put_bytes
        return
    try:
        target = path.resolve()
        if target.is_symlink():  # from Python 3.13 on, resolve() returns circular links unchanged
            raise OSError(errno.ELOOP, "the symbolic links form a circle")
        if target.exists() and not target.is_file():
            with target.open("wb") as file:
                yield file.write
        else:
            with _atomic_file(target) as write:
                yield write
    except (OSError, RuntimeError) as error:  # circular links raise RuntimeError
        reason = getattr(error, "strerror", None) or str(error)
        raise OutputFailed(f"{readable(path)} cannot be written: {reason}") from error


@contextmanager
def _atomic_file(target: Path) -> Iterator[Write]:
    """Yield a function that writes to a temporary file, which replaces `target` at the end of the
    block. After an error, `target` is unchanged."""
    partial = target.with_name(f".laurels-{secrets.token_hex(8)}")
    try:
        with os.fdopen(open_output(partial, NEW), "wb") as file:
            yield file.write
            file.flush()
            os.fsync(file.fileno())
        if target.exists():
            partial.chmod(target.stat().st_mode & 0o777)
        partial.replace(target)
    finally:
        partial.unlink(missing_ok=True)
