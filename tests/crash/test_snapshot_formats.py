"""Only snapshots that earlier versions would misread have the newest format."""

from __future__ import annotations

from pathlib import Path

import pytest

import laurels
from laurels.stores.local.snapshot.files import SnapshotFiles
from laurels.stores.local.snapshot.form import FORMAT, MAGIC, PLAIN

NOW_MS = 1_795_000_000_000
DAY_MS = 86_400_000


def format_of(folder: Path) -> int:
    newest = SnapshotFiles(folder).newest_first()[0].path.read_bytes()
    return int.from_bytes(newest[len(MAGIC) : len(MAGIC) + 4], "little")


@pytest.mark.parametrize("state", ["hidden", "hidden everywhere", "shown", "closed", "nothing"])
def test_the_format_follows_what_is_in_a_snapshot(tmp_path: Path, state: str) -> None:
    clock = laurels.ManualClock(NOW_MS)
    with laurels.open(tmp_path, clock=clock) as lb:
        lb.create(laurels.Board("b", windows=["all", "day:archive=forever"]))
        lb.create(laurels.Board("plain"))
        lb.submit("b", "ann", 1)
        if state == "hidden everywhere":
            lb.hide(None, "mal", "a bot")
        elif state != "nothing":
            lb.hide("plain", "mal", "a bot")
        if state == "shown":
            lb.show("plain", "mal")
        if state == "closed":
            lb.show("plain", "mal")
            clock.advance(DAY_MS)
            lb.seal()
        lb.snapshot()
        assert format_of(tmp_path) == (PLAIN if state in ("shown", "nothing") else FORMAT)
    with laurels.open(tmp_path, clock=clock) as lb:
        assert lb.rank("b", "ann") == 1
        lb.check()
