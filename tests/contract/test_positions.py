"""Conditional positions: a batch counts only if the position of its source is the expected one. So
several writers of one source count each batch once."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from random import Random

import pytest

import laurels
from laurels.errors import (
    InvalidPosition,
    NotReady,
    PartlyCounted,
    PositionDiffers,
    PositionMoved,
)
from tests.contract.reading import scores

EVENTS = 240
MEMBERS = 12


def test_a_position_is_committed_only_after_the_one_it_follows(lb: laurels.Leaderboards) -> None:
    lb.create(laurels.Board("b"))
    lb.submit_many("b", [("ann", 1)], position=("s", "1", None))
    for before in (None, "", "0", "2"):
        with pytest.raises(PositionMoved):
            lb.submit_many("b", [("ann", 10)], position=("s", "3", before))
        with pytest.raises(PositionMoved):
            lb.submit_many("b", [], position=("s", "3", before))
    assert (scores(lb.top("b")), lb.position("b", "s")) == ({"ann": 1}, "1")
    lb.submit_many("b", [("bob", 2)], position=("s", "2", "1"))
    lb.submit_many("b", [], position=("s", "3", "2"))
    lb.submit_many("b", [("ann", 1)], position=("other", "1", ""))
    assert (scores(lb.top("b")), lb.position("b", "s")) == ({"ann": 2, "bob": 2}, "3")


def test_a_batch_that_is_sent_repeatedly_counts_once(lb: laurels.Leaderboards) -> None:
    lb.create(laurels.Board("b"))
    events = [(f"m{i}", 1) for i in range(MEMBERS)]
    lb.submit_many("b", events, position=("s", "1", None))
    for _ in range(3):
        with pytest.raises(PositionMoved):
            lb.submit_many("b", events, position=("s", "1", None))
    assert scores(lb.top("b", limit=50)) == {f"m{i}": 1 for i in range(MEMBERS)}


def test_a_batch_counts_again_after_its_position_went_back(lb: laurels.Leaderboards) -> None:
    lb.create(laurels.Board("b"))
    for i, (before, text) in enumerate([("", "1"), ("1", "2"), ("2", "1"), ("1", "2"), ("2", "3")]):
        events = [(f"m{j}", 1) for j in range(MEMBERS)]
        lb.submit_many("b", events if i != 2 else [], position=("s", text, before))
    assert scores(lb.top("b", limit=50)) == {f"m{j}": 4 for j in range(MEMBERS)}
    lb.submit_many("b", [("m0", 1)], position=("s", "1"))
    lb.submit_many("b", [("m0", 1)], position=("s", "2", "1"))
    assert scores(lb.top("b"))["m0"] == 6


def test_a_batch_that_is_refused_as_a_whole_leaves_the_position_free(
    lb: laurels.Leaderboards,
) -> None:
    lb.create(laurels.Board("b"))
    with pytest.raises(laurels.errors.BatchRefused):
        lb.submit_many(
            "b", [("ann", 1), ("ann", 2**53 - 1)], all_or_nothing=True, position=("s", "1", None)
        )
    assert lb.position("b", "s") is None
    lb.submit_many("b", [("bob", 1)], position=("s", "5", None))
    assert scores(lb.top("b")) == {"bob": 1}


def test_positions_are_listed_by_source(lb: laurels.Leaderboards) -> None:
    lb.create(laurels.Board("b"))
    assert lb.positions("b") == {}
    for source, text in [("sink:a", "1"), ("source/x/y", "2"), ('"quoted" é', "3"), ("0", "4")]:
        lb.submit_many("b", [("ann", 1), ("bob", 1)], position=(source, text))
    lb.submit_many("b", [], position=("0", "5", "4"))
    stored = {'"quoted" é': "3", "0": "5", "sink:a": "1", "source/x/y": "2"}
    assert lb.positions("b") == stored
    assert list(lb.positions("b")) == sorted(stored)
    with pytest.raises(laurels.errors.UnknownBoard):
        lb.positions("c")


def test_a_position_differs_from_the_one_it_follows(lb: laurels.Leaderboards) -> None:
    lb.create(laurels.Board("b"))
    for text, before in (("1", "1"), ("", None), ("", "")):
        with pytest.raises(InvalidPosition):
            lb.submit_many("b", [("ann", 1)], position=("s", text, before))


@pytest.mark.parametrize("seed", range(2))
def test_writers_of_one_source_count_each_event_once(lb: laurels.Leaderboards, seed: int) -> None:
    """Several writers read the same events as fast as they can. Each divides them into batches of
    its own random sizes."""
    lb.create(laurels.Board("b"))

    def write(at: int, end: int) -> None:
        events = [(f"m{i % MEMBERS}", 1) for i in range(at, end)]
        lb.submit_many("b", events, position=("s", str(end), str(at) if at else None))

    def run(number: int) -> int:
        rng, counted = Random(seed * 100 + number), 0
        while (at := int(lb.position("b", "s") or 0)) < EVENTS:
            with suppress(PositionMoved, PartlyCounted, NotReady):
                try:
                    write(at, min(EVENTS, at + rng.randint(1, 40)))
                except PositionDiffers as error:
                    write(at, int(error.ends_at or 0))
                counted += 1
        return counted

    with ThreadPoolExecutor(4) as threads:
        assert sum(threads.map(run, range(4))) > 0
    assert scores(lb.top("b", limit=50)) == {f"m{i}": EVENTS // MEMBERS for i in range(MEMBERS)}
    assert lb.position("b", "s") == str(EVENTS)
    lb.check()
