"""What the tests of sources share: runs of a source in this process and as a command."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self

import msgspec

import laurels
from laurels.flows.sources.figures import Figures
from laurels.flows.sources.mapping import DEFAULT, parse_mapping
from laurels.flows.sources.opening import open_reader
from laurels.flows.sources.reader import StreamReader
from laurels.flows.sources.rejects import RejectedMessage
from laurels.flows.sources.runner import SourceRunner, SourceSettings

FOUR_FIELDS = "board=KeyPrefix,member=UserId,value=DeltaScore"
"""The one line of configuration for events of the four fields."""


def four_fields(board: str, member: str, delta: object, score: object = 0) -> bytes:
    """An event of the four fields as JSON."""
    fields = {"KeyPrefix": board, "UserId": member, "DeltaScore": delta, "Score": score}
    return msgspec.json.encode(fields)


class KeptRejects:
    """Rejects that a test looks at."""

    def __init__(self) -> None:
        self.lines: list[RejectedMessage] = []

    def write(self, rejects: list[RejectedMessage]) -> None:
        self.lines += rejects

    @property
    def codes(self) -> list[str]:
        return [line.code for line in self.lines]


class Outcome(NamedTuple):
    """What became of a run."""

    figures: Figures
    rejects: KeptRejects
    waits: list[str]


async def nothing(_seconds: float) -> None:
    """Wait no time at all."""
    await asyncio.sleep(0)


def no_input(_size: int) -> bytes:
    return b""


def reader_of(address: str | Path, stdin: Callable[[int], bytes] = no_input) -> StreamReader:
    return open_reader(str(address), sleep=nothing, stdin=stdin, run="this")


def count(
    at: str | Path,
    reader: StreamReader | str | Path,
    mapping: str = DEFAULT,
    /,
    *,
    now_ms: int = 1 << 50,
    on_progress: Callable[[SourceRunner, Figures], object] = lambda _runner, _figures: None,
    **settings: Any,
) -> Outcome:
    """Run a source over the boards at a URL until nothing is pending."""
    rejects, waits = KeptRejects(), list[str]()
    used = reader_of(reader) if isinstance(reader, (str, Path)) else reader

    async def run() -> Figures:
        def told(figures: Figures) -> None:
            on_progress(runner, figures)

        async with laurels.open_async(at) as lb:
            runner = SourceRunner(
                lb,
                used,
                parse_mapping(mapping),
                SourceSettings(**{"name": "source", "until_end": True, **settings}),
                rejects=rejects,
                sleep=nothing,
                now_ms=lambda: now_ms,
                waiting=lambda error, _seconds: waits.append(error.code),
                progress=told,
            )
            try:
                await runner.run()
            finally:
                await used.close()
        return runner.figures

    return Outcome(asyncio.run(run()), rejects, waits)


def scores(boards: str | Path, board: str, **where: Any) -> dict[str, Any]:
    """Everybody's score on a board."""
    with laurels.open(boards) as lb:
        return {entry.member: entry.score for entry in lb.export(board, **where)}


class SourceProcess:
    """`laurels source run` as a process, killed at the end of the block."""

    def __init__(self, folder: Path, *arguments: str, stdin: int = subprocess.DEVNULL) -> None:
        program = "import sys\nfrom laurels.cli import main\nsys.exit(main())"
        self.child = subprocess.Popen(
            [sys.executable, "-c", program, "source", "run", *arguments],
            cwd=folder,
            stdin=stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )

    def ended(self) -> tuple[int, str, str]:
        """The exit code and what was printed, once the process ends by itself."""
        out, err = self.child.communicate()
        return self.child.returncode, out.decode(), err.decode()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.child.kill()
        self.child.communicate()


def written(path: Path, lines: Sequence[bytes | Mapping[str, object]]) -> Path:
    """A file of these lines."""
    with path.open("ab") as file:
        for line in lines:
            file.write((line if isinstance(line, bytes) else msgspec.json.encode(line)) + b"\n")
    return path
