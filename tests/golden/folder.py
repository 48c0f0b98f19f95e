"""Data folders that an earlier version wrote, with the answers it gave. All later versions have to
open them and give the same answers.

`folder-1` has a log and two snapshots, and its log has entries after the newest snapshot.
`folder-1-log` is such a folder before its first snapshot. The code of 22 November 2026 wrote both
folders, and they are never written again. A new format gets another folder: raise `NUMBER`, then
run `python -m tests.golden.write folder`.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import msgspec

import laurels
from tests.golden.trace import BOARDS, MEMBERS, START_MS, Player

HERE = Path(__file__).parent
NUMBER = 1
OPENED_AFTER_MS = 60_000
Answers = dict[str, dict[str, object]]
"""The answers, by board and query."""
UNNAMED = laurels.Board("unnamed", windows=["all", "week:keep=20", "day:tz=Asia/Tokyo"])
"""A board whose windows have no names. When the folders were written, the name of such a window was
its whole text."""


def folders() -> list[Path]:
    """Return the golden folders, sorted by name."""
    return sorted(path for path in HERE.iterdir() if path.name.startswith("folder-"))


ADDED = {
    *("labels", "changes", "changes_max", "head", "hide_zero", "close_wait", "starts", "ends"),
    *("retain", "max_age", "ledger"),
}
"""Fields of a definition that did not exist when a folder was written."""


def answers(lb: laurels.Leaderboards) -> Answers:
    """Return the answers of a store to queries about its boards, in a fixed order and without
    offsets."""
    return {board.name: dict(_of_board(lb, board)) for board in (*BOARDS, UNNAMED)}


def _of_board(lb: laurels.Leaderboards, board: laurels.Board) -> Iterator[tuple[str, object]]:
    for window in lb.get(board.name).rules().windows:
        entries = list(lb.export(board.name, window=window, with_data=True))
        yield f"export {window}", msgspec.to_builtins(entries, builtin_types=())
    for member in MEMBERS[:10]:
        card = lb.card(board.name, member)
        ranks = {
            window: standing and (standing.rank, standing.score)
            for window, standing in card.items()
        }
        yield f"card {member}", msgspec.to_builtins(ranks, builtin_types=())
    stored = msgspec.to_builtins(lb.get(board.name), builtin_types=())
    for column in stored["columns"]:
        assert column.pop("measures") == {}
    yield "stored", {field: value for field, value in stored.items() if field not in ADDED}


def end_ms(folder: Path) -> int:
    """Return the time for which the answers of a folder were recorded, in ms."""
    return int((folder / "now").read_text())


def expected(folder: Path) -> bytes:
    """Return the answers that were recorded when a folder was written."""
    return (folder / "answers.jsonl").read_bytes()


def encoded(recorded: Answers) -> bytes:
    """Return answers as the lines of `answers.jsonl`, one for each query."""
    encoder = msgspec.json.Encoder(order="deterministic")
    return encoder.encode_lines(
        (board, question, answer)
        for board, questions in recorded.items()
        for question, answer in sorted(questions.items())
    )


def write() -> None:
    """Write the folders of the current format, with their answers."""
    for name, snapshots in ((f"folder-{NUMBER}", 2), (f"folder-{NUMBER}-log", 0)):
        kept = HERE / name
        shutil.rmtree(kept, ignore_errors=True)
        clock = laurels.ManualClock(START_MS)
        with laurels.open(kept, clock=clock) as lb:
            player = Player(lb, clock)
            for number, _ in enumerate(player.play(1_500)):
                if number in (12, 24)[:snapshots]:
                    lb.snapshot()
            lb.create(UNNAMED)
            lb.submit_many(UNNAMED.name, [(member, n) for n, member in enumerate(MEMBERS)])
            clock.advance(OPENED_AFTER_MS)
            (kept / "answers.jsonl").write_bytes(encoded(answers(lb)))
            (kept / "now").write_text(f"{clock.now_ms()}\n")
        for unneeded in ("lock", "log.db-wal", "log.db-shm"):
            (kept / unneeded).unlink(missing_ok=True)
