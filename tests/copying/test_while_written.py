"""A board is copied while it is written. Then the members that were written meanwhile are copied
again."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from random import Random

import pytest

import laurels
from laurels import config
from laurels.core.commands import RemoveMember, SetData, Submit, SubmitMany
from laurels.flows.copying.comparing import compare
from laurels.stores.base import Servable
from laurels.stores.local.index import moving
from laurels.stores.routed.touched import TouchedMembers, members_of, members_of_events, read_again
from laurels.timeline.instants import MAX_MS
from tests.conftest import Scaled
from tests.redis.servers import Server

NOW_MS = 1_795_392_000_000
BOARDS = [
    laurels.Board("b", windows=["all", "day", "hour"], dedupe="1h"),
    laurels.Board("b", windows=["day"], tie="last", hide_zero=True, changes="1h", dedupe="1h"),
    laurels.Board("b", windows=["all", "fade=decay:1h"], dedupe="1h"),
    laurels.Board(
        "b",
        columns=[
            laurels.Column("sum", scale=1),
            laurels.Column("last", op="last", order="asc"),
        ],
        dedupe="1h",
    ),
]


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with Server() as server:
        yield server


def opened(kind: str, folder: Path, clock: laurels.ManualClock, server: Server) -> Servable:
    if kind == "redis":
        return config.direct_beside(f"{server.url}?prefix={folder.name}:", clock, create=True)
    return config.connect("memory:" if kind == "memory" else str(folder), clock, create=True)


@pytest.mark.parametrize("kind", ["memory", "folder", "redis"])
@pytest.mark.parametrize("board", BOARDS, ids=lambda board: "-".join(board.windows))
def test_a_copy_is_the_same_as_the_board_that_was_written_meanwhile(
    kind: str,
    board: laurels.Board,
    tmp_path: Path,
    server: Server,
    monkeypatch: pytest.MonkeyPatch,
    scaled: Scaled,
) -> None:
    monkeypatch.setattr(moving, "PIECE_ROWS", 20)
    for seed in range(scaled(2, 50)):
        clock = laurels.ManualClock(NOW_MS)
        folder = tmp_path / f"{seed}-{tmp_path.name}"
        with (
            closing(config.connect("memory:", clock, create=True)) as source,
            closing(opened(kind, folder, clock, server)) as target,
        ):
            copy_while_writing(board, source, target, clock, Random(seed))


def copy_while_writing(
    board: laurels.Board,
    source: Servable,
    target: Servable,
    clock: laurels.ManualClock,
    random: Random,
) -> None:
    lb, touched = laurels.Leaderboards(source), TouchedMembers()
    lb.create(board)

    def write(count: int) -> None:
        width = len(lb.get("b").columns)
        for _ in range(count):
            member = f"m{random.randrange(200)}"
            value = [random.randrange(-5, 5) for _ in range(width)]
            event = (member, value[0] if width == 1 else value, None, f"e{random.randrange(900)}")
            touched.add(members_of_events([event]))
            lb.submit_many("b", [event], position=("file", str(random.random())))
            if random.random() < 0.1:
                touched.add(members_of(SetData("b", member, {"n": 1})))
                lb.set_data("b", member, {"n": random.randrange(9)})
            clock.advance(random.randrange(3))

    write(300)
    touched.take()
    since_ms = source.copies.clock().now_ms
    pieces = source.copies.scan("b", since_ms)
    assert pieces is not None
    target.copies.begin(source.copies.origin("b"))
    for piece in pieces:
        target.copies.put("b", [piece])
        write(random.randrange(4))
    for _ in range(random.randrange(3)):
        until_ms = source.copies.clock().now_ms
        members = sorted(touched.take())
        for piece in source.copies.member_pieces("b", members, since_ms, until_ms):
            target.copies.put("b", [piece])
            write(random.randrange(2))
        since_ms = until_ms
    for piece in source.copies.member_pieces("b", sorted(touched.take()), since_ms, MAX_MS):
        target.copies.put("b", [piece])
    target.copies.renew(source.copies.origin("b"))
    target.copies.finish("b")
    assert compare(source.copies, target.copies, "b").differences == []
    target.check()
    ids = [f"e{i}" for i in range(900)]
    repeats = [("m1", 1 if len(board.columns) == 1 else [1, 1], None, id) for id in ids]
    statuses = [
        [receipt.status for receipt in laurels.Leaderboards(each).submit_many("b", repeats)]
        for each in (source, target)
    ]
    assert statuses[0] == statuses[1]


@pytest.mark.parametrize(
    "fields",
    [
        {"windows": ["r=rolling:2h/1h"]},
        {"scopes": [[], ["room"]]},
        {"scopes": [[], ["room"]], "rank_by": "room"},
        {"head": 100},
    ],
)
def test_other_boards_are_copied_as_a_whole(fields: dict[str, object]) -> None:
    with closing(config.connect("memory:", None, create=True)) as source:
        laurels.Leaderboards(source).create(laurels.Board("b", **fields))  # type: ignore[arg-type]
        assert source.copies.scan("b", NOW_MS) is None


def test_members_are_found_in_every_kind_of_event() -> None:
    events = [("a", 1), {"member": "b", "value": 1}, ["c", 1], {"value": 1}, (5, 1), (), ("", 1)]
    assert members_of_events(events) == {b"a", b"b", b"c"}
    command = read_again(SubmitMany("x", iter([("a", 1), ("b", 2)])))
    assert members_of(command) == members_of(command) == {b"a", b"b"}
    assert members_of(Submit("x", ("a", 1))) == {b"a"}
    assert members_of(SetData("x", "a", {})) == {b"a"}
    for unknown in (SetData("x", "a", None), RemoveMember("x", "a")):
        assert members_of(unknown) is None
