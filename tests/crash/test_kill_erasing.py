"""If a store is killed while it erases a member, then after it is opened again the member is
everywhere or nowhere."""

from __future__ import annotations

import shutil
import subprocess
import sys
import threading
from pathlib import Path
from random import Random
from typing import Any
from unittest.mock import patch

import pytest

import laurels
from laurels import config
from laurels.errors import ArchiveDamaged, CannotRewind, StorageFailed
from laurels.stores.local.archive.archive import Archive
from laurels.stores.local.archive.folder import FolderSegments
from laurels.stores.local.files.audit import FolderAudit
from laurels.stores.local.payouts.table import PayoutTable
from laurels.stores.local.recovery.backup import back_up, restore
from laurels.stores.local.recovery.sealed_files import SegmentFiles
from tests.conftest import Scaled
from tests.internals import local

START_MS = 1_795_000_000_000
DAY_MS = 86_400_000
MEMBER = 'zoe/"the\nperson"'
PRIZES: dict[str, Any] = {"list": [{"name": "gold", "ranks": [1, 2], "amount": "5"}]}
DAYS = 3


def prepare(folder: Path) -> int:
    """Fill a folder with three sealed days, in several segments, whose payouts are confirmed.
    Return the time."""
    clock = laurels.ManualClock(START_MS)
    with laurels.open(folder, clock=clock) as lb:
        windows: list[Any] = ["all", {"type": "day", "prizes": PRIZES}]
        lb.create(laurels.Board("b", windows=windows, keep=2, scopes=[[], ["room"]], changes="1d"))
        for day in range(DAYS):
            lb.submit_many(
                "b",
                [
                    laurels.Event("ann", 9, id=f"a{day}"),
                    laurels.Event(MEMBER, 7, id=f"z{day}", labels={"room": "1"}),
                    laurels.Event("cid", 1, labels={"room": "1"}),
                ],
            )
            clock.advance(DAY_MS)
            lb.seal()
            for payout in lb.payouts("b", state="due"):
                lb.confirm("b", payout.id, "paid")
        lb.submit("b", MEMBER, 1)
        lb.hide("b", MEMBER, "under review")
    return clock.now_ms()


def labels(lb: laurels.Leaderboards) -> list[str]:
    return [period.period for period in lb.archived("b", window="day")]


def who(lb: laurels.Leaderboards) -> str:
    """Return the text by which the archived days and their payouts name the member: its id, or the
    token that has replaced it. It must be the same everywhere."""
    periods = labels(lb)
    assert len(periods) == DAYS
    found = set()
    for period in periods:
        ranking = [entry.member for entry in lb.top("b", window="day", period=period)]
        [found_here] = {*ranking} - {"ann", "cid"}
        assert ranking == ["ann", found_here, "cid"]
        assert lb.rank("b", found_here, window="day", period=period) == 2
        assert lb.rank("b", found_here, window="day", period=period, labels={"room": "1"}) == 1
        assert lb.verify("b", window="day", period=period).verified
        found.add(found_here)
    found |= {payout.member for payout in lb.payouts("b")} - {"ann"}
    [only] = found
    assert len(lb.payouts("b", member=only)) == DAYS
    return only


def assert_all_or_nothing(lb: laurels.Leaderboards) -> bool:
    """Assert that the member is everywhere or nowhere; return whether it is erased."""
    lb.seal()  # this completes an erasure that was begun
    only = who(lb)
    running = {entry.member for entry in lb.top("b", labels={"room": "1"})}
    hidden = [each.member for each in lb.hidden("b")]
    if only == MEMBER:
        assert hidden == [MEMBER]
        assert lb.show("b", MEMBER)
        assert lb.rank("b", MEMBER) == 2
        lb.hide("b", MEMBER, "under review")
    else:
        assert hidden == []
        assert MEMBER not in running
        assert lb.submit("b", MEMBER, 1, id="z2").status == "applied", "the ids are forgotten"
        lb.remove("b", MEMBER)
        named = [entry for entry in lb.audit() if "member" in str(entry.request)]
        assert not [entry for entry in named if entry.verb == "hide" and MEMBER in str(entry)]
    lb.check()
    return only != MEMBER


def files_with(folder: Path, text: bytes) -> set[str]:
    return {
        path.name.partition("-0")[0]
        for path in folder.rglob("*")
        if path.is_file() and text in path.read_bytes()
    }


def test_a_kill_before_any_line_erases_all_or_nothing(tmp_path: Path, scaled: Scaled) -> None:
    prepared = tmp_path / "prepared"
    now_ms = prepare(prepared)

    def run(name: str, last: int) -> tuple[Path, subprocess.CompletedProcess[str]]:
        folder = tmp_path / name
        shutil.copytree(prepared, folder)
        command = [sys.executable, "-m", "tests.crash.erasing_writer", str(folder), str(now_ms)]
        return folder, subprocess.run(
            [*command, MEMBER, str(last)], stdout=subprocess.PIPE, text=True, check=False
        )

    whole, finished = run("whole", 0)
    assert finished.returncode == 0
    lines = int(finished.stdout)
    with laurels.open(whole, clock=laurels.ManualClock(now_ms)) as lb:
        assert who(lb).startswith("erased-")
    random, outcomes = Random(1), set()
    count = scaled(10, lines)
    chosen = range(1, lines + 1) if count == lines else sorted(random.sample(range(lines), count))
    for last in chosen:
        folder, killed = run(f"killed-{last}", max(1, last))
        assert killed.returncode == -9, last
        with laurels.open(folder, clock=laurels.ManualClock(now_ms)) as lb:
            outcomes.add(assert_all_or_nothing(lb))
            lb.erase(MEMBER, "asked once more")
            # the check has counted a new event of the member, and has removed the member again
            assert assert_all_or_nothing(lb)
            lb.erase(MEMBER, "and once more")
            lb.snapshot()
            lb.submit("b", "ann", 1)
            lb.snapshot()
        left = files_with(folder, MEMBER.encode())
        assert left <= {"changes.db"}, last
        shutil.rmtree(folder)
    assert outcomes == {True, False}, "both before and after the record"


@pytest.mark.parametrize(
    ("owner", "step"),
    [
        (FolderSegments, "write"),
        (FolderSegments, "remove_durably"),
        (PayoutTable, "erase"),
        (FolderAudit, "erase"),
        (Archive, "erase"),
    ],
)
def test_a_full_disk_delays_an_erasure(tmp_path: Path, owner: Any, step: str) -> None:
    now_ms = prepare(tmp_path)
    full = patch.object(owner, step, side_effect=StorageFailed("the disk is full"))
    with laurels.open(tmp_path, clock=laurels.ManualClock(now_ms)) as lb:
        with full, pytest.raises(StorageFailed):
            lb.erase(MEMBER, "asked for it")
        assert [entry.member for entry in lb.top("b")] == ["ann", "cid"]
        lb.submit("b", "ann", 1)  # the store still accepts events
    with laurels.open(tmp_path, clock=laurels.ManualClock(now_ms)) as lb:
        assert assert_all_or_nothing(lb)


@pytest.mark.parametrize("error", [StorageFailed("the disk is full"), ArchiveDamaged("damaged")])
def test_nothing_is_corrected_while_an_erasure_is_incomplete(
    tmp_path: Path, error: Exception
) -> None:
    """The payouts name the token already and the archive still names the member, so a correction
    would pay the member once more."""
    now_ms = prepare(tmp_path)
    with laurels.open(tmp_path, clock=laurels.ManualClock(now_ms)) as lb:
        day = labels(lb)[0]
        with patch.object(Archive, "erase", side_effect=error):
            with pytest.raises(type(error)):
                lb.erase(MEMBER, "asked for it")
            with pytest.raises(type(error)):
                lb.disqualify("b", "cid", "a bot", window="day", period=day)
            with pytest.raises(type(error)):
                lb.delete("b")
        lb.disqualify("b", "cid", "a bot", window="day", period=day)
        paid = [payout.member for payout in lb.payouts("b", period=day)]
        assert len(paid) == 2
        assert MEMBER not in paid


def test_a_snapshot_between_the_record_and_the_files_completes_it(tmp_path: Path) -> None:
    now_ms = prepare(tmp_path)
    full = patch.object(Archive, "erase", side_effect=StorageFailed("the disk is full"))
    with full, laurels.open(tmp_path, clock=laurels.ManualClock(now_ms)) as lb:
        with pytest.raises(StorageFailed):
            lb.erase(MEMBER, "asked for it")
        for _ in range(3):  # after these snapshots the log no longer has the record of the erasure
            lb.submit("b", "ann", 1)
            lb.snapshot()
    with laurels.open(tmp_path, clock=laurels.ManualClock(now_ms)) as lb:
        assert assert_all_or_nothing(lb)


@pytest.mark.parametrize("changes", ["", "1d"])
def test_a_board_that_is_removed_during_an_erasure_keeps_its_later_places(
    tmp_path: Path, changes: str
) -> None:
    """Before the erasure is complete, a new member with the same id is counted, and is ranked in a
    period that is sealed later; its place there must stay. The board is no longer retained when the
    erasure is completed, so it cannot tell which of its periods were sealed before the erasure
    began."""
    clock = laurels.ManualClock(START_MS)
    with laurels.open(tmp_path, clock=clock) as lb:
        limits: dict[str, Any] = {"ends": START_MS + 3 * DAY_MS, "retain": "1d", "changes": changes}
        lb.create(laurels.Board("b", windows=["day:archive=forever"], grace=0, **limits))
        full = patch.object(Archive, "erase", side_effect=StorageFailed("the disk is full"))
        with full:
            lb.submit("b", MEMBER, 1)
            clock.advance(DAY_MS)
            lb.seal()
            with pytest.raises(StorageFailed):
                lb.erase(MEMBER, "asked for it")
            lb.submit("b", MEMBER, 2)
            later = lb.periods("b")[0].start_ms
            clock.advance(DAY_MS)
            lb.seal()
            clock.advance(10 * DAY_MS)
            lb.create(laurels.Board("other"))
            assert [board.name for board in lb.boards()] == ["other"]
            lb.snapshot()
    with laurels.open(tmp_path, clock=clock) as lb:
        lb.seal()
        assert [key.instance for key in local(lb).archive.find(MEMBER.encode())] == [later]


def test_erasures_while_others_write(tmp_path: Path) -> None:
    now_ms = prepare(tmp_path)
    clock = laurels.ManualClock(now_ms)
    with laurels.open(tmp_path, clock=clock) as lb:
        members = [f"m{number}" for number in range(6)]
        lb.submit_many("b", [(member, 1, None, f"id-{member}") for member in members])
        errors: list[BaseException] = []

        def write() -> None:
            for at in range(60):
                lb.submit("b", f"w{at % 7}", 1)
                clock.advance(1_000)

        def erase(member: str) -> None:
            try:
                lb.erase(member, "asked for it")
            except BaseException as error:
                errors.append(error)

        threads = [threading.Thread(target=write) for _ in range(2)]
        threads += [threading.Thread(target=erase, args=(each,)) for each in [*members, MEMBER]]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not errors
        assert {entry.member for entry in lb.top("b", limit=100)} == {
            "ann",
            "cid",
            *[f"w{at}" for at in range(7)],
        }
        assert who(lb).startswith("erased-")
        lb.check()


def season(folder: Path, clock: laurels.ManualClock) -> laurels.Leaderboards:
    """Open a new folder with a sealed day that the member has won, and whose payouts are
    confirmed."""
    lb = laurels.open(folder, clock=clock)
    lb.create(laurels.Board("b", windows=["all", {"type": "day", "prizes": PRIZES}], keep=2))
    lb.submit_many("b", [(MEMBER, 7), ("cid", 1)])
    pay_day(lb, clock)
    return lb


def pay_day(lb: laurels.Leaderboards, clock: laurels.ManualClock) -> None:
    clock.advance(DAY_MS)
    lb.seal()
    for payout in lb.payouts("b", state="due"):
        lb.confirm("b", payout.id, "paid")


@pytest.mark.parametrize("anew", [False, True])
def test_an_erasure_that_is_resumed_ends_when_it_began(tmp_path: Path, anew: bool) -> None:
    """Before the erasure is resumed, a new member with the same id is counted and wins a prize. The
    resumed erasure leaves this new member alone."""
    clock = laurels.ManualClock(START_MS)
    lb = season(tmp_path, clock)
    full = patch.object(Archive, "erase", side_effect=StorageFailed("the disk is full"))
    with full:
        with pytest.raises(StorageFailed):
            lb.erase(MEMBER, "asked for it")
        lb.submit_many("b", [(MEMBER, 5), ("cid", 1)])
        pay_day(lb, clock)
        if anew:  # the snapshot has the pending erasure, and the log does not
            for _ in range(3):
                lb.submit("b", "cid", 1)
                lb.snapshot()
            lb.close()
    if anew:
        lb = laurels.open(tmp_path, clock=clock)
    lb.seal()
    clock.advance(20 * DAY_MS)
    lb.seal()
    days = [
        [entry.member for entry in lb.top("b", window="day", period=day)]
        for day in labels(lb)[::-1]
    ]
    token = days[0][0]
    assert token.startswith("erased-")
    assert days == [[token, "cid"], [MEMBER, "cid"], *days[2:]]
    assert [each.member for each in lb.payouts("b")][:4] == [token, "cid", MEMBER, "cid"]
    assert all(lb.verify("b", window="day", period=day).verified for day in labels(lb))
    again = lb.erase(MEMBER, "asked for it again")
    assert (again.periods, again.payouts) == (1, 1)
    assert not files_with(tmp_path / "archive", MEMBER.encode())
    assert not {name for name in files_with(tmp_path, MEMBER.encode()) if "payouts" in name}
    lb.close()


@pytest.mark.parametrize("step", [SegmentFiles, None])
def test_a_backup_taken_during_an_erasure_does_not_have_the_member(
    tmp_path: Path, step: Any
) -> None:
    """The erasure runs after the backup has opened the segments, or after it has opened the log."""
    clock = laurels.ManualClock(START_MS)
    lb = season(tmp_path / "boards", clock)
    lb.snapshot()
    find = SegmentFiles.find
    erased: list[laurels.Erasure] = []

    def found(self: SegmentFiles) -> None:
        find(self)
        if not erased and (step is SegmentFiles or self._files):
            erased.append(lb.erase(MEMBER, "asked for it"))

    with patch.object(SegmentFiles, "find", found):
        back_up(tmp_path / "boards", tmp_path / "backup")
    lb.close()
    restore(tmp_path / "backup", tmp_path / "restored")
    with laurels.open(tmp_path / "restored", clock=clock) as restored:
        [day] = labels(restored)
        ranking = [entry.member for entry in restored.top("b", window="day", period=day)]
        assert ranking == [erased[0].token, "cid"]
        assert [entry.member for entry in restored.top("b")] == ["cid"]
        restored.snapshot()
    assert MEMBER.encode() not in b"".join(
        path.read_bytes() for path in (tmp_path / "restored" / "archive").iterdir()
    )


def test_a_rewind_does_not_undo_the_seal_of_a_period_with_an_erased_member(
    tmp_path: Path,
) -> None:
    clock = laurels.ManualClock(START_MS)
    season(tmp_path, clock).close()
    before = clock.now_ms()
    with laurels.open(tmp_path, clock=clock) as lb:
        clock.advance(1_000)
        lb.submit("b", "cid", 1)
        lb.erase(MEMBER, "asked for it")
    for dry_run in (True, False):
        with pytest.raises(CannotRewind, match="erased"):
            config.rewind(str(tmp_path), START_MS + 1, dry_run=dry_run)
    config.rewind(str(tmp_path), before, dry_run=False)
    with laurels.open(tmp_path, clock=clock) as lb:
        [day] = labels(lb)
        assert lb.verify("b", window="day", period=day).verified
        [token, other] = [entry.member for entry in lb.top("b", window="day", period=day)]
        assert (token.startswith("erased-"), other) == (True, "cid")
