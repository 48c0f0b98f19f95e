"""Boards with an archive are copied to and from index servers, whose archive is in a ledger."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from laurels import ManualClock
from laurels.errors import LaurelsError, UnknownBoard
from laurels.errors.copies import CopyLost
from tests.contract.deployments import Deployment
from tests.internals import copies_of

from .pairs import opened_pair
from .seasons import ARCHIVED, DAY, START_MS, archive, copied, play_archive

PAIRS = [
    ("folder", "redis"),
    ("redis", "folder"),
    ("folder", "cluster-shards"),
    ("cluster-shards", "folder"),
    ("redis", "cluster-shards"),
    ("http", "redis"),
    ("redis", "http"),
]


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(START_MS)


@pytest.fixture(params=PAIRS, ids="-to-".join)
def pair(
    request: pytest.FixtureRequest, tmp_path: Path, clock: ManualClock
) -> Iterator[tuple[Deployment, Deployment]]:
    with opened_pair(request.param, tmp_path, clock) as sides:
        yield sides


def test_a_copy_has_the_archive_and_goes_on(
    pair: tuple[Deployment, Deployment], clock: ManualClock
) -> None:
    source, target = (each.lb for each in pair)
    play_archive(source, clock)
    done = copied(source, target)
    assert done.compared.differences == []
    assert done.compared.sealed == len(source.archived("seasons")) == 8
    before = archive(source, "seasons")
    assert archive(target, "seasons") == before
    for window in ("hour", "day"):
        states = [
            [(each.label, each.state, each.entries) for each in lb.periods("seasons", window)]
            for lb in (source, target)
        ]
        assert states[0] == states[1]
    target.submit("seasons", "m1", 1, at=clock.now_ms() - 2 * DAY, labels={"room": "1"})
    lb = pair[1].reopen()
    assert archive(lb, "seasons") == before
    lb.submit("seasons", "m5", 3, labels={"room": "1"})
    clock.advance(DAY)
    lb.seal()
    sealed = lb.archived("seasons")
    assert len({(each.window, each.period) for each in sealed}) == len(sealed) == 10
    lb.check()


@pytest.mark.parametrize("pair", [("folder", "redis"), ("folder", "cluster-shards")], indirect=True)
def test_a_board_without_a_ledger_is_refused_before_anything_is_written(
    pair: tuple[Deployment, Deployment], clock: ManualClock
) -> None:
    source, target = (each.lb for each in pair)
    for ledger, code in (("", "ledger_required"), ("nowhere", "unknown_ledger")):
        play_archive(source, clock, replace(ARCHIVED, ledger=ledger))
        with pytest.raises(LaurelsError) as raised:
            copied(source, target)
        assert raised.value.code == code
        assert copies_of(target).unfinished("seasons") is None
        source.delete("seasons")


@pytest.mark.parametrize("pair", [("folder", "redis"), ("folder", "cluster-shards")], indirect=True)
def test_a_copy_without_all_periods_is_not_finished(
    pair: tuple[Deployment, Deployment], clock: ManualClock
) -> None:
    source, target = (each.lb for each in pair)
    play_archive(source, clock)
    own, other = copies_of(source), copies_of(target)
    pieces = list(own.pieces("seasons"))
    for count in (len(pieces) - 1, len(pieces) - 5):
        other.begin(own.origin("seasons"))
        for piece in pieces[:count]:
            other.put("seasons", [piece])
            other.put("seasons", [piece])
        with pytest.raises(CopyLost):
            other.finish("seasons")
        with pytest.raises(UnknownBoard):
            target.archived("seasons")
        other.give_up("seasons")
    assert copied(source, target).compared.differences == []
    assert archive(target, "seasons") == archive(source, "seasons")


def test_periods_in_which_only_values_of_labels_are_left_are_archived(
    pair: tuple[Deployment, Deployment], clock: ManualClock
) -> None:
    source, target = (each.lb for each in pair)
    source.create(ARCHIVED)
    source.submit("seasons", "m1", 5, labels={"room": "1"})
    source.remove("seasons", "m1")
    assert copied(source, target).compared.differences == []
    clock.advance(2 * DAY)
    for lb in (source, target):
        lb.seal()
        assert [(each.window, each.entries) for each in lb.archived("seasons")] == [
            ("hour", 1),
            ("day", 1),
        ]
        page = lb.top("seasons", window="day", period="2026-11-20", by="room")
        assert [(entry.member, entry.score) for entry in page] == [("1", 5)]
