"""Damaged files: in one file of a folder, a bit is flipped or the end is cut off.

The folder is copied while it is open, as a power cut would leave it: two snapshots, a trimmed log,
and entries in the write-ahead file that no checkpoint has moved yet. Opening the damaged copy must
either fail with an error of laurels that names a file, or restore everything that was acknowledged.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random

import laurels
from laurels.errors import LaurelsError, StorageFailed
from laurels.timeline.clock import ManualClock
from tests.comparison import everything

NOW_MS = 1_795_176_000_000
REFUSED = {"log_damaged", "snapshot_damaged", "format_too_new", "storage_failed"}
UNREAD = {"lock", "log.db-shm"}
"""The files that contain no acknowledged data."""


@dataclass(frozen=True)
class Damage:
    """One change of a file. It flips the bit `bit` of the byte number `place` or, if `bit` is None,
    cuts the file off before this byte."""

    file: str
    place: int
    bit: int | None

    def do(self, folder: Path) -> None:
        content = bytearray((folder / self.file).read_bytes())
        if self.bit is None:
            del content[self.place :]
        else:
            content[self.place] ^= 1 << self.bit
        (folder / self.file).write_bytes(content)


def whole_folder(folder: Path, work: Path) -> object:
    """Create the folder, and return its content, for comparison."""
    clock = ManualClock(NOW_MS)
    with laurels.open(work, clock=clock) as lb:
        windows, scopes = ["all", "day", "3h=rolling:3h/1h"], [[], ["room"]]
        lb.create(laurels.Board("gifts", windows=windows, scopes=scopes, rank_by="room"))
        for i in range(30):
            room = {"room": f"{i % 4}"}
            lb.submit_many(
                "gifts", [(f"m{i % 7}", i + 1, None, None, room), (f"n{i}", 5)], key=f"k{i}"
            )
            if i in (10, 20):
                lb.snapshot()
            clock.advance(600_000)
        lb.set_data("gifts", "m1", {"name": "One"})
        shutil.copytree(work, folder)
        return everything(lb)


def damages(folder: Path, many: int, random: Random) -> Iterator[Damage]:
    """For each file, yield a flipped bit and a cut at each of `many` random bytes, or at every byte
    if the file has no more."""
    for path in sorted(folder.iterdir()):
        size = path.stat().st_size
        if path.name in UNREAD or not size:
            continue
        places = range(size) if many >= size else sorted(random.sample(range(size), many))
        for place in places:
            yield Damage(path.name, place, random.randrange(8))
            yield Damage(path.name, place, None)


def try_out(folder: Path, damage: Damage, work: Path, expected: object) -> str:
    """Damage a copy of the folder and open it. Return `whole` if it has the expected content,
    otherwise the code of the error."""
    shutil.rmtree(work, ignore_errors=True)
    shutil.copytree(folder, work)
    damage.do(work)
    try:
        with laurels.open(work, clock=ManualClock(NOW_MS + 30 * 600_000)) as lb:
            assert everything(lb) == expected, f"{damage}: data is lost without an error"
            lb.check()
    except LaurelsError as error:
        refused = error
    else:
        return "whole"
    assert refused.code in REFUSED, f"{damage}: {refused.code}"
    assert refused.advice in str(refused)
    assert isinstance(refused, StorageFailed) or str(work) in str(refused), f"{damage}: {refused}"
    return refused.code
