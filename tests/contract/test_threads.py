"""Eight threads use one store: every event counts exactly once, and no answer shows a partial
commit."""

from __future__ import annotations

import threading
from collections.abc import Callable
from random import Random

import pytest

import laurels
from tests.conftest import Scaled
from tests.contract.reading import scores

THREADS = 8


def in_threads(work: Callable[[int], None]) -> None:
    """Run `work(i)` in several threads, and raise the error of any of them."""
    errors: list[BaseException] = []

    def guarded(i: int) -> None:
        try:
            work(i)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=guarded, args=[i]) for i in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not errors, errors
    assert not any(thread.is_alive() for thread in threads)


def test_every_event_counts_once(lb: laurels.Leaderboards, scaled: Scaled) -> None:
    times = scaled(20, 50)
    lb.create(laurels.Board("b", windows=["all", "day"]))

    def work(i: int) -> None:
        rng = Random(i)
        for j in range(times):
            lb.submit("b", "shared", 1, id=f"{i}-{j}")
            lb.submit_many("b", [(f"m{rng.randint(0, 9)}", 1) for _ in range(10)])

    in_threads(work)
    for window in ("all", "day"):
        totals = scores(lb.top("b", window=window, limit=100))
        assert totals.pop("shared") == THREADS * times
        assert (
            sum(value for value in totals.values() if isinstance(value, int))
            == THREADS * times * 10
        )
    lb.check()


def test_the_same_id_counts_once_when_several_threads_send_it(lb: laurels.Leaderboards) -> None:
    lb.create(laurels.Board("b"))
    applied = []

    def work(i: int) -> None:
        for j in range(50):
            receipt = lb.submit("b", "ann", 1, id=f"{j}")
            assert receipt.status in {"applied", "duplicate"}
            if receipt.status == "applied":
                applied.append((i, j))

    in_threads(work)
    assert sorted(j for _, j in applied) == list(range(50))
    assert scores(lb.top("b")) == {"ann": 50}


@pytest.mark.one_shard
def test_no_answer_shows_a_partial_commit(lb: laurels.Leaderboards, scaled: Scaled) -> None:
    lb.create(laurels.Board("b", windows=["all", "day"]))
    lb.submit_many("b", [("a", 0), ("b", 0)])

    def work(i: int) -> None:
        for _ in range(scaled(20, 50)):
            if i % 2:
                lb.submit_many("b", [("a", 1), ("b", -1)])
                continue
            page, card = lb.top("b"), lb.standing("b", "a", window="day")
            totals = scores(page)
            assert totals["a"] == -int(str(totals["b"]))
            assert card is not None
            assert card.below is None or card.score == -int(str(card.below.score))

    in_threads(work)


def test_the_receipts_of_one_member_continue_each_other(lb: laurels.Leaderboards) -> None:
    lb.create(laurels.Board("b"))
    steps: list[tuple[object, object]] = []

    def work(_: int) -> None:
        for _ in range(40):
            receipt = lb.submit("b", "ann", 1)
            steps.append((receipt.previous_score or 0, receipt.score))

    in_threads(work)
    assert sorted(steps, key=str) == sorted(((i, i + 1) for i in range(THREADS * 40)), key=str)


def test_boards_are_created_and_deleted_during_writes(lb: laurels.Leaderboards) -> None:
    lb.create(laurels.Board("b"))

    def work(i: int) -> None:
        for j in range(15):
            if i == 0:
                lb.create(laurels.Board(f"own{j}"))
                lb.submit(f"own{j}", "ann", 1)
                lb.change("b", title=str(j))
                lb.delete(f"own{j}")
            else:
                lb.submit("b", "ann", 1)
                lb.boards()

    in_threads(work)
    assert [board.name for board in lb.boards()] == ["b"]
    assert scores(lb.top("b")) == {"ann": (THREADS - 1) * 15}
    lb.check()
