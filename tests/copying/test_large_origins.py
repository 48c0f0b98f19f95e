"""The origin of a board with many hidden members or sealed periods is larger than the largest body
of a service. It is sent in parts."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from laurels import Board, ManualClock
from laurels.core import contents
from laurels.core.contents import OriginRest
from laurels.core.hiding import Hiding
from laurels.flows.copying.copying import copy_board
from laurels.stores.http import copies
from laurels.wire.copies import MAX_BYTES, encode_json
from tests.internals import copies_of

from .pairs import opened_pair
from .seasons import SEASONS, START_MS, play_seasons, seasons


def test_an_origin_may_be_larger_than_the_largest_body(tmp_path: Path) -> None:
    clock = ManualClock(START_MS)
    with opened_pair(("memory", "http"), tmp_path, clock) as (source, target):
        source.lb.create(Board("b"))
        source.lb.submit_many("b", [("ann", 3), ("bob", 2)])
        own, other = copies_of(source.lb), copies_of(target.lb)
        hidden = [(b"%0100d" % i, Hiding("a bot", START_MS)) for i in range(60_000)]
        origin = replace(own.origin("b"), hidden=hidden)
        assert len(encode_json(origin)) > MAX_BYTES
        other.begin(origin)
        for piece in own.pieces("b"):
            other.put("b", [piece])
        other.finish("b")
        assert dict(other.origin("b").hidden) == dict(hidden)


@pytest.mark.parametrize("name", ["on-an-index-server", "in-a-folder"])
def test_sealed_periods_that_were_sent_in_parts_are_whole(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(copies, "MAX_ORIGIN", 100)
    monkeypatch.setattr(contents, "REST_BYTES", 100)
    sent: list[OriginRest] = []
    extend = copies.RemoteCopies.extend

    def twice(self: copies.RemoteCopies, board: str, rest: OriginRest) -> None:
        sent.append(rest)
        extend(self, board, rest)
        extend(self, board, rest)

    monkeypatch.setattr(copies.RemoteCopies, "extend", twice)
    clock = ManualClock(START_MS)
    board = replace(SEASONS, name="a" if name == "on-an-index-server" else "z")
    with opened_pair(("folder", "routed"), tmp_path, clock) as (source, target):
        play_seasons(source.lb, clock, board)
        done = copy_board(copies_of(source.lb), copies_of(target.lb), board.name)
        assert done.compared.differences == []
        assert len(sent) > 5
        assert seasons(target.lb, board.name) == seasons(source.lb, board.name)
