"""The possible contents of a disk after a power cut at any moment of a traced run.

A disk keeps what was flushed. It may lose any sector that was written to a file since the last
fsync of that file, and any change of names in a folder since the last fsync of that folder. The
trace of `failing_io.c` has all calls of the run, and between them the reports of steps. The cut can
be after any call.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from tests.crash.disk import Fault, Stage
from tests.crash.verdict import StepReports, judge

SECTOR = 512


@dataclass(frozen=True)
class Call:
    """One call in a trace, with the data it wrote."""

    name: str
    result: int
    offset: int
    path: str
    to: str
    written: bytes


def calls_of(trace: Path, written: Path) -> list[Call]:
    """Return the successful calls of a trace, in order."""
    every = written.read_bytes()
    calls, at = [], 0
    for line in trace.read_text().splitlines():
        _, name, result, offset, _, path, to = line.split("\t")
        length = max(0, int(result)) if name in {"write", "pwrite", "report"} else 0
        if int(result) >= 0:
            written_now = every[at : at + length]
            calls.append(Call(name, int(result), int(offset), path, to, written_now))
        at += length
    assert at == len(every), "the trace and the written data do not match"
    return calls


@dataclass
class _File:
    """The flushed content of a file, and the changes since then in order: (offset, data) is a
    write, and (length, None) sets a new length."""

    flushed: bytes = b""
    since: list[tuple[int, bytes | None]] = field(default_factory=list)

    def flush(self) -> None:
        self.flushed, self.since = _with(self.flushed, self.since), []

    def left(self, chance: Random | None) -> bytes:
        """Return the content of the file after a power cut: everything that was flushed and, with
        `chance`, some of the later changes."""
        if chance is None:
            return self.flushed
        return _with(self.flushed, [part for part in self._parts() if chance.random() < 0.5])

    def _parts(self) -> Iterator[tuple[int, bytes | None]]:
        for offset, written in self.since:
            if written is None:
                yield offset, None
                continue
            at = 0
            while at < len(written):
                end = (offset + at) // SECTOR * SECTOR + SECTOR - offset
                yield offset + at, written[at:end]
                at = end


def _with(content: bytes, parts: list[tuple[int, bytes | None]]) -> bytes:
    changed = bytearray(content)
    for offset, written in parts:
        if written is None:
            del changed[offset:]
            changed.extend(bytes(offset - len(changed)))
        else:
            changed.extend(bytes(max(0, offset - len(changed))))
            changed[offset : offset + len(written)] = written
    return bytes(changed)


class Disk:
    """One folder on a disk, since its creation."""

    def __init__(self, folder: Path) -> None:
        self._folder = str(folder)
        self._names: dict[str, _File] = {}
        self._settled: dict[str, _File] = {}
        self._since: list[dict[str, _File | None]] = []

    def do(self, call: Call) -> None:
        """Apply a call to the disk."""
        if call.path == self._folder:
            if call.name == "fsync":
                self._settled, self._since = dict(self._names), []
            return
        file = self._names.get(call.path)
        if call.name == "open":
            self._open(call, file)
        elif call.name == "rename":
            assert file is not None
            self._rename({call.path: None, call.to: file})
        elif call.name == "unlink":
            self._rename({call.path: None})
        elif file is None:
            pass  # the file has no name any more, so it cannot be opened
        elif call.name == "fsync":
            file.flush()
        elif call.name in {"truncate", "allocate"}:
            file.since.append((call.offset, None))
        else:
            assert call.name in {"write", "pwrite"}, call
            file.since.append((call.offset, call.written))

    def _open(self, call: Call, file: _File | None) -> None:
        if file is None:
            self._rename({call.path: _File()})
        elif call.offset & os.O_TRUNC:
            file.since.append((0, None))

    def _rename(self, names: dict[str, _File | None]) -> None:
        """Change which files these names denote; None removes a name. A power cut keeps either all
        of these changes or none."""
        self._since.append(names)
        self._names = _renamed(self._names, [names])

    def cut(self, folder: Path, chance: Random | None = None) -> None:
        """Write the state after a power cut into a folder: everything that was flushed and, with
        `chance`, some later changes. The shared memory of SQLite is left out."""
        folder.mkdir()
        some = [names for names in self._since if chance is not None and chance.random() < 0.5]
        for path, file in _renamed(self._settled, some).items():
            if not path.endswith("-shm"):
                (folder / Path(path).name).write_bytes(file.left(chance))


def _renamed(names: dict[str, _File], changes: list[dict[str, _File | None]]) -> dict[str, _File]:
    result = dict(names)
    for change in changes:
        for path, file in change.items():
            if file is None:
                result.pop(path, None)
            else:
                result[path] = file
    return result


@dataclass(frozen=True)
class Traced:
    """The disk calls and the reports of a complete run of the first part (of `play.PARTS`). It
    starts with a new folder."""

    calls: list[Call]
    folder: Path


def traced(stage: Stage, base: Path) -> Traced:
    """Run the first part on a disk that does not fail."""
    base.mkdir()
    folder, reports = base / "folder", base / "reports"
    trace, written = base / "trace", base / "written"
    settings = {
        "LAURELS_TEST_IO_TRACE": str(trace),
        "LAURELS_TEST_IO_DATA": str(written),
        "LAURELS_TEST_IO_REPORTS": str(reports),
    }
    assert stage.play("first", folder, reports, {**Fault().settings(), **settings}) == 0
    return Traced(calls_of(trace, written), folder)


def survive_cut(run: Traced, after: int, chance: Random | None, work: Path) -> set[int]:
    """Cut the power after this many calls, and check the folder. Return the steps that are in the
    folder although no success was reported for them."""
    shutil.rmtree(work, ignore_errors=True)
    disk, reports = Disk(run.folder), work.with_name(f"{work.name}.reports")
    written = bytearray()
    for call in run.calls[:after]:
        if call.name == "report":
            written += call.written
        else:
            disk.do(call)
    disk.cut(work, chance)
    reports.write_bytes(written)
    try:
        return judge(work, StepReports.read(reports))
    except BaseException as error:
        error.add_note(f"the power was cut after call {after}")
        raise
