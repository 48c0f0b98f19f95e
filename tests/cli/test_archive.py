"""`archive list | export` and `verify` over a folder with sealed periods."""

from __future__ import annotations

import pytest

import laurels
from tests.cli.running import Shell

DAY = 86_400_000
LONG_AGO_MS = 1_785_000_000_000  # 25 July 2026


@pytest.fixture
def sealed(shell: Shell) -> str:
    """Fill the folder of the shell with two sealed days; return the label of the first one."""
    clock = laurels.ManualClock(LONG_AGO_MS)
    with laurels.open(shell.directory / "boards", clock=clock) as lb:
        windows = ["all", "day:keep=1,archive=forever"]
        board = laurels.Board("gifts", windows=windows, scopes=[[], ["room"]], grace="0s")
        lb.create(board)
        label = lb.periods("gifts", "day")[0].label
        for points in (3, 4):
            lb.submit("gifts", "ann", points, labels={"room": "7"})
            lb.submit("gifts", "ben", 5)
            clock.advance(DAY)
            lb.seal()
    return label


def test_the_sealed_periods_are_listed(shell: Shell, sealed: str) -> None:
    ran = shell("archive", "list", "gifts")
    assert ran.code == 0
    assert ran.out.count("day") == 2
    assert sealed in ran.out
    listed = shell("archive", "list", "gifts", "--json").json()
    assert [(each["window"], each["entries"]) for each in listed] == [("day", 3), ("day", 3)]
    assert listed[1]["period"] == sealed
    assert listed[1]["digest"][:16] in ran.out
    assert shell("archive", "list", "gifts", "--limit", "1", "--json").json() == listed[:1]
    assert shell("archive", "list", "gifts", "--window", "all", "--json").json() == []
    assert shell("archive", "list", "nothing").code == 2


def test_a_sealed_period_is_exported(shell: Shell, sealed: str) -> None:
    ran = shell("archive", "export", "gifts", "--window", "day", "--period", sealed)
    assert ran.out == "rank,member,score\n1,ben,5\n2,ann,3\n"
    room = shell(
        *("archive", "export", "gifts", "--window", "day", "--period", sealed),
        *("--label", "room=7", "--format", "jsonl"),
    )
    assert room.json() == {"member": "ann", "rank": 1, "score": 3}
    ran = shell("archive", "export", "gifts", "--window", "day")
    assert ran.code == 2
    assert "expected --period" in ran.err


def test_a_sealed_period_is_verified(shell: Shell, sealed: str) -> None:
    ran = shell("verify", "gifts", "--window", "day", "--period", sealed)
    assert ran.code == 0
    assert ran.out.splitlines()[1:] == ["the archive: agrees", "the log: agrees"]
    found = shell("verify", "gifts", "--window", "day", "--period", sealed, "--json").json()
    assert found["verified"] is True
    assert found["digest"] == found["archive"] == found["log"]
    ran = shell("verify", "gifts", "--window", "all")
    assert ran.code == 2
    assert "the archive has no period of the window all" in ran.err


def test_the_states_of_periods_are_shown(shell: Shell) -> None:
    clock = laurels.ManualClock(LONG_AGO_MS)
    with laurels.open(shell.directory / "boards", clock=clock) as lb:
        lb.create(laurels.Board("gifts", windows=["day:archive=forever"], grace="0s"))
        lb.submit("gifts", "ben", 5)
        clock.advance(DAY)
    lines = shell.ok("board", "show", "gifts").out.splitlines()
    assert lines[-1].split() == ["day", "2026-07-25", "1", "closed"]
    shell.ok("seal")
    lines = shell.ok("board", "show", "gifts").out.splitlines()
    assert [line.split()[-1] for line in lines[-2:]] == ["current", "sealed"]


def test_the_erased_places_of_a_period_are_named(shell: Shell, sealed: str) -> None:
    token = shell.json("erase", "ann", "--reason", "asked for it")["token"]
    ran = shell.ok("verify", "gifts", "--window", "day", "--period", sealed)
    assert ran.out.splitlines()[1:] == [
        "the archive: agrees",
        "the log: agrees",
        f"erased: position 2, {token}",
        f"erased: position 1, room=7, {token}",
    ]


def test_a_damaged_period_is_not_verified(shell: Shell, sealed: str) -> None:
    path = min((shell.directory / "boards" / "archive").iterdir())
    content = bytearray(path.read_bytes())
    content[40] ^= 1
    path.write_bytes(content)
    ran = shell("verify", "gifts", "--window", "day", "--period", sealed)
    assert ran.code == 1
    assert "is not what was written" in ran.err
