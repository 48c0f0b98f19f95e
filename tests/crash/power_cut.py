"""What a disk holds after the power was cut at a moment of a traced run.

A disk keeps what was flushed and may forget everything else: what was written to a file since its
last fsync, sector by sector, and which names a folder gained and lost since the folder's. The trace
of `failing_io.c` says which calls came before the cut, and in between which steps the run had been
told were done.
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
    """One line of a trace, with what was written."""

    name: str
    result: int
    offset: int
    path: str
    to: str
    written: bytes


def calls_of(trace: Path, written: Path) -> list[Call]:
    """Return the calls of a trace, in order, without those that failed."""
    every = written.read_bytes()
    calls, at = [], 0
    for line in trace.read_text().splitlines():
        _, name, result, offset, _, path, to = line.split("\t")
        length = max(0, int(result)) if name in {"write", "pwrite", "said"} else 0
        if int(result) >= 0:
            written_now = every[at : at + length]
            calls.append(Call(name, int(result), int(offset), path, to, written_now))
        at += length
    assert at == len(every), "the trace and what was written do not belong together"
    return calls


@dataclass
class _File:
    """The content of a file that is flushed, and the changes since then in order: bytes at an
    offset, or a length to which the file was cut."""

    flushed: bytes = b""
    since: list[tuple[int, bytes | None]] = field(default_factory=list)

    def flush(self) -> None:
        self.flushed, self.since = _with(self.flushed, self.since), []

    def left(self, chance: Random | None) -> bytes:
        """Return what a power cut leaves: without `chance` what was flushed, else some of the rest
        as well."""
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
    """One folder on a disk, from the time when it was made."""

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
            pass  # its name is gone already, so nothing finds the file again
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
        """Change names to mean another file, or none, from now on; a cut keeps all of them or
        none."""
        self._since.append(names)
        self._names = _renamed(self._names, [names])

    def cut(self, folder: Path, chance: Random | None = None) -> None:
        """Write what a power cut leaves into a folder: only what was flushed, or with `chance` some
        of the rest. The shared memory of SQLite is left out."""
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
    """A whole run of the first part on a new folder: its disk calls and its reports."""

    calls: list[Call]
    folder: Path


def traced(stage: Stage, base: Path) -> Traced:
    """Play the run on a disk that does not fail."""
    base.mkdir()
    folder, said = base / "folder", base / "said"
    trace, written = base / "trace", base / "written"
    settings = {
        "LAURELS_TEST_IO_TRACE": str(trace),
        "LAURELS_TEST_IO_DATA": str(written),
        "LAURELS_TEST_IO_SAID": str(said),
    }
    assert stage.play("first", folder, said, {**Fault().settings(), **settings}) == 0
    return Traced(calls_of(trace, written), folder)


def survive_cut(run: Traced, after: int, chance: Random | None, work: Path) -> set[int]:
    """Judge what is left when the power is cut after this many calls."""
    shutil.rmtree(work, ignore_errors=True)
    disk, said = Disk(run.folder), work.with_name(f"{work.name}.said")
    told = bytearray()
    for call in run.calls[:after]:
        if call.name == "said":
            told += call.written
        else:
            disk.do(call)
    disk.cut(work, chance)
    said.write_bytes(told)
    try:
        return judge(work, StepReports.read(said))
    except BaseException as error:
        error.add_note(f"the power was cut after call {after}")
        raise
