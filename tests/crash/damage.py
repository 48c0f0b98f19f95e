"""Damaged files: a bit is flipped, or the end is cut off, anywhere in the files of a folder.

The folder is copied while it is open, as a power cut would leave it: two snapshots, a trimmed log,
entries in the write-ahead file that no checkpoint has moved yet. Whatever is damaged, opening
either refuses with an error of laurels that names a file, or everything that was acknowledged is
there.
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
"""What holds nothing that was acknowledged."""


@dataclass(frozen=True)
class Damage:
    """One change to one file: flip `bit` of the byte at `place`, or, without a bit, cut the file
    off there."""

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
    """Make the folder, and return everything it must hold."""
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
    """Return this many bits and this many cuts of each file, spread over all of it."""
    for path in sorted(folder.iterdir()):
        size = path.stat().st_size
        if path.name in UNREAD or not size:
            continue
        places = range(size) if many >= size else sorted(random.sample(range(size), many))
        for place in places:
            yield Damage(path.name, place, random.randrange(8))
            yield Damage(path.name, place, None)


def try_out(folder: Path, damage: Damage, work: Path, expected: object) -> str:
    """Return what became of a damaged copy: `whole`, or the code it was refused with."""
    shutil.rmtree(work, ignore_errors=True)
    shutil.copytree(folder, work)
    damage.do(work)
    try:
        with laurels.open(work, clock=ManualClock(NOW_MS + 30 * 600_000)) as lb:
            assert everything(lb) == expected, f"{damage}: something is missing, and nobody said so"
            lb.check()
    except LaurelsError as error:
        refused = error
    else:
        return "whole"
    assert refused.code in REFUSED, f"{damage}: {refused.code}"
    assert refused.advice in str(refused)
    assert isinstance(refused, StorageFailed) or str(work) in str(refused), f"{damage}: {refused}"
    return refused.code
