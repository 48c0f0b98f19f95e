"""Files and pipes of JSON lines as streams: every line counts once, as soon as it arrives."""

import os
import queue
import signal
import subprocess
from collections.abc import Callable, Iterable
from decimal import Decimal
from pathlib import Path

import pytest

import laurels
from laurels.errors import AllEventsRefused
from laurels.errors.sources import SourceDiverged
from laurels.flows.sources import runner
from laurels.flows.sources.metrics import SourceMetrics
from laurels.flows.sources.reader import ZERO, StreamPosition, decode_position
from laurels.flows.sources.runner import SourceRunner
from tests.redis.servers import until

from .sourcing import FOUR_FIELDS, SourceProcess, count, four_fields, reader_of, scores, written


def pipe_of(chunks: Iterable[bytes]) -> Callable[[int], bytes]:
    """Return a function that returns these chunks one by one, as reads of a pipe do."""
    left = iter(chunks)
    return lambda _size: next(left)


@pytest.fixture
def boards(tmp_path: Path) -> Path:
    """The path of a folder with the boards gifts and gold."""
    with laurels.open(tmp_path / "boards") as lb:
        lb.create(laurels.Board("gifts", windows=["all", "day"]))
        lb.create(laurels.Board("gold", columns=[laurels.Column("gold", scale=2)]))
    return tmp_path / "boards"


def test_a_file_that_is_read_repeatedly_counts_once(boards: Path, tmp_path: Path) -> None:
    file = written(tmp_path / "events", [four_fields("gifts", f"m{i % 3}", 1) for i in range(30)])
    for batch in (7, 4, 100):
        count(boards, file, FOUR_FIELDS, batch=batch)
    assert scores(boards, "gifts") == {"m0": 10, "m1": 10, "m2": 10}
    written(file, [four_fields("gifts", "m0", 5), four_fields("gold", "m0", "0.25")])
    again = count(boards, file, FOUR_FIELDS)
    assert (again.metrics.read, again.metrics.applied) == (2, 2)
    assert scores(boards, "gifts")["m0"] == 15


def test_a_stopped_run_is_resumed(boards: Path, tmp_path: Path) -> None:
    file = written(tmp_path / "events", [four_fields("gifts", "ann", 1) for _ in range(30)])
    first = count(boards, file, FOUR_FIELDS, batch=4, on_progress=lambda runner, _: runner.stop())
    assert first.metrics.applied == 4
    rest = count(boards, file, FOUR_FIELDS, batch=7)
    assert rest.metrics.applied == 26
    assert scores(boards, "gifts") == {"ann": 30}


def test_each_board_continues_from_its_own_position(boards: Path, tmp_path: Path) -> None:
    lines = [four_fields(("gifts", "gold", "late")[i % 3], "ann", 1) for i in range(30)]
    file = written(tmp_path / "events", lines)
    first = count(boards, file, FOUR_FIELDS, batch=5)
    assert (first.metrics.applied, first.metrics.unknown) == (20, 10)
    assert first.metrics.unknown_boards == {"late": 10}
    with laurels.open(boards) as lb:
        lb.create(laurels.Board("late"))
    again = count(boards, file, FOUR_FIELDS, batch=8)
    assert (again.metrics.applied, again.metrics.repeated) == (10, 20)
    assert scores(boards, "gifts") == scores(boards, "gold") == scores(boards, "late")


def position_of(boards: Path, board: str) -> StreamPosition:
    with laurels.open(boards) as lb:
        text = lb.position(board, "source/source")
    return ZERO if text is None else decode_position(text).position


def test_a_board_without_messages_does_not_delay_a_restart(
    boards: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A board without messages gets the source's position, too, here after every second batch. So a
    new run need not read the stream from the beginning."""
    monkeypatch.setattr(runner, "ADVANCE_EVERY", 2)
    file = written(tmp_path / "events", [four_fields("gifts", "ann", 1) for _ in range(10)])

    def die(_runner: object, metrics: SourceMetrics) -> None:
        if metrics.batches == 4:
            raise InterruptedError

    with pytest.raises(InterruptedError):
        count(boards, file, FOUR_FIELDS, batch=2, on_progress=die)
    size = file.stat().st_size
    assert (
        position_of(boards, "gold")
        == position_of(boards, "gifts")
        == StreamPosition(size * 8 // 10)
    )
    assert count(boards, file, FOUR_FIELDS).metrics.repeated == 0
    assert position_of(boards, "gold") == position_of(boards, "gifts") == StreamPosition(size)
    assert scores(boards, "gifts") == {"ann": 10}


def test_boards_that_do_not_match_are_skipped_and_counted(boards: Path, tmp_path: Path) -> None:
    file = written(tmp_path / "events", [four_fields(b, "ann", 1) for b in ("gifts", "gold", "x")])
    done = count(boards, file, FOUR_FIELDS, boards="gi*")
    assert (done.metrics.applied, done.metrics.foreign, done.metrics.unknown) == (1, 2, 0)
    assert scores(boards, "gold") == {}
    prefixed = FOUR_FIELDS.replace("KeyPrefix", "{KeyPrefix|gi*}")
    done = count(boards, file, prefixed, name="other")
    assert (done.metrics.foreign, done.metrics.unknown_boards) == (2, {"fts": 1})


def test_malformed_or_refused_lines_are_rejected_with_the_reason(
    boards: Path, tmp_path: Path
) -> None:
    lines = [
        b"nonsense",
        b"",
        four_fields("gifts", "", 1),
        four_fields("gifts", "ann", "1.5"),
        four_fields("gold", "ann", "1.25"),
        b'{"KeyPrefix": "gifts"}',
        b'{"KeyPrefix": "gifts", "UserId": "\xff"}',
        b"x" * 1_100_000,
    ]
    file = written(tmp_path / "events", lines)
    with pytest.warns(AllEventsRefused):
        done = count(boards, file, FOUR_FIELDS)
    assert sorted(done.rejects.codes) == [
        "invalid_json",
        "line_not_utf8",
        "line_too_long",
        "member_empty",
        "missing_field",
        "too_many_places",
    ]
    assert (done.metrics.read, done.metrics.rejected, done.metrics.applied) == (7, 6, 1)
    (first, *_) = done.rejects.lines
    assert (first.position, first.text, first.board) == ("9", "nonsense", None)
    assert scores(boards, "gold") == {"ann": Decimal("1.25")}


def test_a_line_is_read_only_after_its_line_end_has_arrived(boards: Path, tmp_path: Path) -> None:
    file = tmp_path / "events"
    whole = four_fields("gifts", "ann", 1)
    file.write_bytes(whole + b"\n" + whole[:20])
    assert count(boards, file, FOUR_FIELDS).metrics.applied == 1
    written(file, [whole[20:]])
    with file.open("ab") as opened:
        opened.write(whole)
    assert count(boards, file, FOUR_FIELDS).metrics.applied == 2
    written(file, [b"", whole])
    assert count(boards, file, FOUR_FIELDS).metrics.applied == 1
    assert scores(boards, "gifts") == {"ann": 4}


def test_a_recreated_file_is_detected(boards: Path, tmp_path: Path) -> None:
    event = four_fields("gifts", "ann", 1)
    file = written(tmp_path / "events", [event, event])
    count(boards, file, FOUR_FIELDS)
    whole = file.read_bytes()
    for content in (b"", event, b" " + whole):
        file.write_bytes(content)
        with pytest.raises(SourceDiverged):
            count(boards, file, FOUR_FIELDS)
    file.write_bytes(whole)
    written(tmp_path / "new", [event]).replace(file)
    with pytest.raises(SourceDiverged):
        count(boards, file, FOUR_FIELDS)
    assert count(boards, file, FOUR_FIELDS, begin="now").metrics.read == 0
    assert count(boards, file, FOUR_FIELDS).metrics.read == 0
    written(tmp_path / "newer", [event]).replace(file)
    assert count(boards, file, FOUR_FIELDS, begin="start").metrics.applied == 1
    assert count(boards, file, FOUR_FIELDS, begin="start").metrics.applied == 0
    assert scores(boards, "gifts") == {"ann": 3}


def test_a_file_truncated_while_followed_is_detected(boards: Path, tmp_path: Path) -> None:
    file = written(tmp_path / "events", [four_fields("gifts", "ann", 1)])
    with pytest.raises(SourceDiverged):
        count(
            boards,
            file,
            FOUR_FIELDS,
            until_end=False,
            on_progress=lambda _runner, _metrics: file.write_bytes(b""),
        )
    assert scores(boards, "gifts") == {"ann": 1}


def test_each_run_counts_a_pipe_from_its_start_to_its_end(boards: Path) -> None:
    for _ in range(2):
        chunks = [four_fields("gifts", "ann", 1) + b"\n", four_fields("gifts", "bob", 1), b""]
        done = count(boards, reader_of("-", pipe_of(chunks)), FOUR_FIELDS, until_end=False)
        assert done.metrics.applied == 2
    assert scores(boards, "gifts") == {"ann": 2, "bob": 2}


def test_a_line_of_a_pipe_is_counted_without_waiting_for_the_next(boards: Path) -> None:
    """The pipe never ends, and it returns its second line only after the first line has been
    counted."""
    chunks: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    chunks.put(four_fields("gifts", "ann", 1) + b"\n")
    seen: list[int] = []

    def on_progress(runner: SourceRunner, metrics: SourceMetrics) -> None:
        seen.append(metrics.applied)
        chunks.put(four_fields("gifts", "ann", 1) + b"\n")
        if len(seen) == 3:
            runner.stop()

    def read(_size: int) -> bytes:
        return chunks.get()

    reader = reader_of("-", read)
    count(boards, reader, FOUR_FIELDS, until_end=False, on_progress=on_progress)
    assert seen == [1, 2, 3]
    assert scores(boards, "gifts") == {"ann": 3}


def test_the_command_counts_standard_input_line_by_line(boards: Path, tmp_path: Path) -> None:
    arguments = ("pipe", "--from", "-", "--at", str(boards), "--map", FOUR_FIELDS, "--json")
    with SourceProcess(tmp_path, *arguments, stdin=subprocess.PIPE) as source:
        assert source.child.stdin is not None
        for line in (four_fields("gifts", "ann", 1), four_fields("other", "ann", 1), b"no"):
            source.child.stdin.write(line + b"\n")
            source.child.stdin.flush()
        until((tmp_path / "pipe.rejects.jsonl").exists, "the last line was rejected")
        source.child.send_signal(signal.SIGTERM)
        code, out, err = source.ended()
    assert code == 1, err
    assert '"applied":1' in out
    assert '"unknown_boards":{"other":1}' in out
    assert "1 messages rejected (1 invalid_json)" in err
    assert scores(boards, "gifts") == {"ann": 1}


def test_a_named_pipe_is_read_like_standard_input(boards: Path, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    arguments = ("fifo", "--from", "fifo", "--at", str(boards), "--map", FOUR_FIELDS)
    with SourceProcess(tmp_path, *arguments) as source:
        written(tmp_path / "fifo", [four_fields("gifts", "ann", 1)])
        code, out, _ = source.ended()
    assert code == 0
    assert "1 applied" in out
