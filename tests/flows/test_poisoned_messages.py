"""Messages that are not events and are meant to stop a source. Each of them is skipped or rejected
with an error code, and the message after it counts."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

import laurels
from laurels.cli import main
from laurels.flows.sources.reader import MESSAGE_LIMIT
from tests.redis.servers import Server

from .nats_servers import NatsServer
from .sourcing import FOUR_FIELDS, count, four_fields, scores, written

NESTED = b"[" * 5_000 + b"]" * 5_000
DIGITS = b"9" * 5_000


def event(member: bytes = b'"a"', value: bytes = b"1", more: bytes = b"") -> bytes:
    return b'{"KeyPrefix":"b","UserId":' + member + b',"DeltaScore":' + value + more + b"}"


REJECTED = {
    "no JSON": (b"score a 5", "invalid_json"),
    "NUL": (b"\0\0", "invalid_json"),
    "no object": (b"[1]", "invalid_event"),
    "null": (b"null", "invalid_event"),
    "nested deeply": (event(more=b',"x":' + NESTED), "json_too_deep"),
    "a nested value": (event(value=b"[" * 900 + b"]" * 900), "invalid_value"),
    "a nested member": (event(b'{"a":' * 900 + b"1" + b"}" * 900), "invalid_member"),
    "NaN": (event(value=b"NaN"), "invalid_json"),
    "NaN as text": (event(value=b'"NaN"'), "not_finite"),
    "infinity": (event(value=b'"-Infinity"'), "not_finite"),
    "many digits": (event(value=DIGITS), "value_out_of_range"),
    "many digits as text": (event(value=b'"' + DIGITS + b'"'), "invalid_value"),
    "a large exponent": (event(value=b"1e1000000000"), "value_out_of_range"),
    "a larger exponent": (event(value=b'"1e999999999999999999"'), "value_out_of_range"),
    "a small exponent": (event(value=b'"1e-999999999999999999"'), "too_many_places"),
    "a member of digits": (event(DIGITS), "value_out_of_range"),
    "a long member": (event(b'"' + b"x" * 129 + b'"'), "member_too_long"),
    "half a surrogate": (event(rb'"\ud800"'), "invalid_json"),
    "no UTF-8": (event(b'"\xff"'), "line_not_utf8"),
    "true": (event(b"true", b"true"), "invalid_member"),
    "no time": (event(more=b',"at":"sNaN"'), "invalid_at"),
    "a time of many digits": (event(more=b',"at":' + b"9" * 4_000), "invalid_at"),
    "a label of an object": (event(more=b',"labels":{"a":{"b":1}}'), "invalid_label"),
    "too long": (event(more=b',"x":"' + b"x" * MESSAGE_LIMIT + b'"'), "line_too_long"),
}
"""Messages with their descriptions, and the error codes with which they are rejected."""
MAPPING = f"{FOUR_FIELDS},at?=at,labels?=labels"
OTHER_NAMES = ["", "..", "../../etc", "a/b", "b?x=1#", "\0", "x" * 100_000]
"""Names that are invalid for a board."""


@pytest.fixture(scope="module")
def redis() -> Iterator[Server]:
    with Server() as server:
        yield server


@pytest.fixture
def boards(tmp_path: Path) -> Path:
    with laurels.open(tmp_path / "boards") as lb:
        lb.create(laurels.Board("b"))
    return tmp_path / "boards"


def test_a_poisoned_line_is_rejected_and_the_next_one_counts(boards: Path, tmp_path: Path) -> None:
    lines = [
        line
        for i, (text, _) in enumerate(REJECTED.values())
        for line in (text, four_fields("b", f"good{i}", 1))
    ]
    file = written(tmp_path / "events", lines)
    metrics, rejects, waits = count(boards, file, MAPPING)
    rejected = sorted(rejects.lines, key=lambda line: int(line.position))
    assert dict(zip(REJECTED, [line.code for line in rejected], strict=True)) == {
        name: code for name, (_, code) in REJECTED.items()
    }
    assert metrics.applied == len(REJECTED)
    assert scores(boards, "b") == {f"good{i}": 1 for i in range(len(REJECTED))}
    assert waits == []


def test_the_last_of_several_fields_with_one_name_counts(boards: Path, tmp_path: Path) -> None:
    """If a message has two fields of the same name, both the fast path and the mapping use the last
    one."""
    line = b'{"KeyPrefix":"b","UserId":"a","UserId":"c","DeltaScore":1,"DeltaScore":5}'
    count(boards, written(tmp_path / "events", [line]), FOUR_FIELDS)
    count(
        boards,
        written(tmp_path / "more", [line]),
        "board={KeyPrefix},member=UserId,value=DeltaScore",
        name="more",
    )
    assert scores(boards, "b") == {"c": 10}


def test_messages_with_invalid_board_names_are_skipped(boards: Path, tmp_path: Path) -> None:
    lines = [four_fields(name, "a", 1) for name in OTHER_NAMES]
    file = written(tmp_path / "events", [*lines, four_fields("b", "good", 1)])
    metrics, rejects, _ = count(boards, file, FOUR_FIELDS)
    assert (metrics.unknown, metrics.applied, rejects.lines) == (len(OTHER_NAMES), 1, [])
    assert max(map(len, metrics.unknown_boards)) < 200
    assert scores(boards, "b") == {"good": 1}


def test_an_entry_that_is_not_utf8_does_not_spoil_the_summary(
    redis: Server,
    boards: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in (b"\xff\xfe", b"b"):
        redis.call("XADD", "bytes", "*", b"KeyPrefix", name, "UserId", "a", "DeltaScore", 1)
    code = main(
        [
            *("source", "run", "s", "--at", str(boards), "--from", f"{redis.url}/0/bytes"),
            *("--map", FOUR_FIELDS, "--until-end", "--json"),
        ]
    )
    out, err = capsys.readouterr()
    assert code == 0, err
    document = msgspec.json.decode(out)
    assert (document["applied"], document["unknown"]) == (1, 1)
    assert document["unknown_boards"] == {"\\udcff\\udcfe": 1}


def test_an_entry_of_64_mib_is_rejected_with_its_beginning(redis: Server, boards: Path) -> None:
    """One entry has a field of 64 MiB. Another entry has only a JSON message, which is slightly too
    long."""
    fields = (b"KeyPrefix", b"b", b"UserId", b"a", b"DeltaScore", b"1")
    redis.call("XADD", "long", "*", *fields, b"x", b"x" * (64 << 20))
    redis.call("XADD", "long", "*", "m", event(more=b',"x":"' + b"x" * MESSAGE_LIMIT + b'"'))
    redis.call("XADD", "long", "*", *fields)
    metrics, rejects, _ = count(boards, f"{redis.url}/0/long", FOUR_FIELDS)
    redis.call("DEL", "long")
    assert rejects.codes == ["line_too_long"] * 2
    assert [len(line.text) for line in rejects.lines] == [MESSAGE_LIMIT] * 2
    assert metrics.applied == 1


def test_a_message_cannot_forge_its_subject(boards: Path) -> None:
    """A client that may publish to only one subject can write only to the board of that subject."""
    with laurels.open(boards) as lb:
        lb.create(laurels.Board("other"))
    message = b'{"$subject":"scores.other","UserId":"a","DeltaScore":1}'
    with NatsServer() as server:
        server.create("EVENTS", "scores.*")
        server.publish("scores.b", [message])
        mapping = "board={$subject|scores.*},member=UserId,value=DeltaScore"
        count(boards, f"{server.url}/EVENTS", mapping)
    assert scores(boards, "b") == {"a": 1}
    assert scores(boards, "other") == {}
