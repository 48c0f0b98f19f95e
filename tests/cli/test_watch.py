"""`watch` shows a board live: as a table on a terminal, and as lines for programs."""

from __future__ import annotations

import os
import pty
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, Any

import msgspec
import pytest
from msgspec.structs import replace
from rich.console import Console

import laurels
from laurels.cli.ranking import Ranking
from laurels.cli.screen import picture
from laurels.cli.watch import standing_line
from laurels.server.live.frames import FullList, ListChange, MemberChange, Moved
from laurels.stores.http.feed import StreamEvent
from tests.serving import Served

from .running import Shell

BOARD = laurels.Board("gifts", title="Gifts")
AS_OF = laurels.AsOf(1, "all")
_PROGRAM = "import sys\nfrom laurels.cli import main\nsys.exit(main())"


def event(kind: str, document: object) -> StreamEvent:
    return StreamEvent(kind, "e.1", msgspec.json.encode(document))


def entries(*members: str) -> list[laurels.Entry]:
    return [laurels.Entry(member, rank, 10 - rank) for rank, member in enumerate(members, 1)]


def drawn(ranking: Ranking) -> str:
    console = Console(width=60)
    with console.capture() as captured:
        console.print(picture(BOARD, ranking))
    return captured.get()


def test_a_change_turns_the_shown_list_into_the_next_one() -> None:
    ranking = Ranking()
    ranking.apply(event("top", FullList(entries("ann", "bob", "cid"), 3, AS_OF, 3)))
    assert [ranking.mark(member) for member in ("ann", "bob", "cid")] == ["", "", ""]
    change = ListChange(
        as_of=AS_OF,
        total=4,
        order=["bob", "dan", "ann"],
        entered=[laurels.Entry("dan", 2, 15)],
        left=["cid"],
        moved=[Moved("bob", 1, 2, 20), Moved("ann", 3, 1, 9)],
        scored=[],
    )
    ranking.apply(event("change", change))
    rows = [(entry.rank, entry.member, entry.score) for entry in ranking.entries]
    assert rows == [(1, "bob", 20), (2, "dan", 15), (3, "ann", 9)]
    assert [ranking.mark(member) for member in ("bob", "dan", "ann")] == ["▲1", "new", "▼2"]
    text = drawn(ranking)
    assert "Gifts, all" in text
    assert "4 members" in text
    assert text.index("bob") < text.index("dan") < text.index("ann")


def test_control_characters_of_a_member_do_not_reach_the_terminal() -> None:
    ranking = Ranking()
    ranking.apply(event("top", FullList(entries("\x1b[2J[bold]evil"), 1, AS_OF, 3)))
    assert "\x1b[2J" not in drawn(ranking)
    assert "\\x1b[2J[bold]evil" in drawn(ranking)


@pytest.mark.parametrize(
    ("rank", "previous", "by", "line"),
    [
        (2, 5, None, "ann: 2. of 9  7  ▲3"),
        (5, 2, "bob", "ann: 5. of 9  7  ▼3  overtaken by bob"),
        (5, 5, None, "ann: 5. of 9  7"),
        (None, 2, None, "ann is not ranked"),
    ],
)
def test_a_member_change_is_one_line(
    rank: int | None, previous: int | None, by: str | None, line: str
) -> None:
    score = None if rank is None else 7
    assert standing_line(MemberChange("ann", rank, score, 9, previous, 6, by, AS_OF)) == line


def test_an_estimated_rank_is_shown_as_an_estimate() -> None:
    change = MemberChange("ann", 1_204_000, 7, 8_000_000, None, None, None, AS_OF)
    change = replace(change, rank_low=1_198_000, rank_high=1_210_000)
    line = "ann: about 1,204,000; between 1,198,000 and 1,210,000, of 8,000,000  7"
    assert standing_line(change) == line


@contextmanager
def running(*arguments: str, out: Any = subprocess.PIPE) -> Iterator[subprocess.Popen[bytes]]:
    """Run a command in a separate process, which is killed at the end of the test."""
    with subprocess.Popen(
        [sys.executable, "-c", _PROGRAM, *arguments], stdout=out, stderr=subprocess.PIPE
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def line_of(stream: IO[bytes] | None) -> Any:
    """Return the next line that the process prints."""
    assert stream is not None
    assert select.select([stream], [], [], 60)[0]
    return msgspec.json.decode(stream.readline())


def test_each_event_is_printed_as_a_line_until_ctrl_c(shell: Shell) -> None:
    with (
        Served(shell.directory / "boards") as served,
        laurels.open(served.url) as lb,
    ):
        lb.create(BOARD)
        with running("watch", "gifts", "--json", "--at", served.url) as process:
            assert line_of(process.stdout)["event"] == "top"
            lb.submit("gifts", "ann", 5)
            change = line_of(process.stdout)
            assert (change["event"], change["data"]["order"]) == ("change", ["ann"])
            process.send_signal(signal.SIGINT)
            assert process.wait(60) == 130


def test_a_terminal_shows_the_board(shell: Shell) -> None:
    keyboard, terminal = pty.openpty()
    with Served(shell.directory / "boards") as served, laurels.open(served.url) as lb:
        lb.create(BOARD)
        lb.submit("gifts", "ann", 5)
        with running("watch", "gifts", "--at", served.url, out=terminal) as process:
            output = b""
            while b"1 members" not in output:
                assert select.select([keyboard], [], [], 60)[0], output
                output += os.read(keyboard, 65_536)
            assert b"ann" in output
            process.send_signal(signal.SIGINT)
            assert process.wait(60) == 130
    os.close(terminal)
    os.close(keyboard)


def test_a_folder_is_not_watched(shell: Shell) -> None:
    ran = shell("watch", "gifts")
    assert ran.code == 2
    assert "--at http://" in ran.err


def test_watching_an_unknown_board_is_an_error(shell: Shell) -> None:
    with Served(shell.directory / "boards") as served:
        ran = shell("watch", "gifts", "--at", served.url)
    assert ran.code == 2
    assert ran.err.startswith("error [unknown_board]")
