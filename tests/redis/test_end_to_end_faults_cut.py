"""The connection is cut after the server has counted an event and before the client has its
answer."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import laurels
from laurels.errors.index_server import IndexUnavailable

from .proxy import Proxy
from .servers import Server
from .writing import BOARD, Writers, again, counted, hasty, opened


@pytest.fixture
def server() -> Iterator[Server]:
    with Server() as server:
        yield server


@pytest.fixture
def proxy(server: Server) -> Iterator[Proxy]:
    with Proxy(server) as proxy:
        yield proxy


@pytest.mark.parametrize("times", [1, 3])
def test_a_write_whose_answer_is_lost_counts_once(proxy: Proxy, times: int) -> None:
    with opened(proxy.url) as lb:
        lb.submit(BOARD, "a", 5)
        proxy.cut_after(b"careful", times)
        receipt = lb.submit(BOARD, "careful", 7)
        assert proxy.cut == times
        assert (receipt.status, receipt.score, receipt.rank, receipt.offset) == ("applied", 7, 1, 2)
        assert receipt.previous_score is None
        assert lb.submit(BOARD, "careful", 1).score == 8
        assert counted(lb) == {"a": 5, "careful": 8}


def test_a_delayed_duplicate_write_is_not_counted(proxy: Proxy) -> None:
    """The proxy delivers a write late: after the repeat of this write, and perhaps also the next
    write, has arrived on another connection. The server does not count the late write again."""
    with opened(proxy.url) as lb:
        lb.submit(BOARD, "a", 5)
        for member in ("first", "second"):
            proxy.keep_back(member.encode())
            assert lb.submit(BOARD, member, 7).score == 7
        older, last = proxy.deliver_late()
        assert older.startswith(b"-")
        assert b"by_member" in last
        assert counted(lb) == {"a": 5, "first": 7, "second": 7}
        assert lb.submit(BOARD, "a", 1).offset == 4


def test_a_batch_whose_answer_is_lost_gets_its_original_receipts(proxy: Proxy) -> None:
    with opened(proxy.url) as lb:
        lb.create(laurels.Board("r", windows=["r=rolling:1h/1m", "day", "all"]))
        lb.submit("r", "m1", 1, id="known")
        proxy.cut_after(b"m2499")
        events = [(f"m{i}", i, None, "known" if i == 1 else None) for i in range(2_500)]
        receipts = lb.submit_many("r", events, ranks=True)
        assert proxy.cut == 1
        assert [receipt.status for receipt in receipts[:3]] == ["applied", "duplicate", "applied"]
        assert receipts[2_499].score == 2_499
        assert receipts[2_499].rank == 1
        for window in ("r", "day", "all"):
            there = {entry.member: entry.score for entry in lb.export("r", window=window)}
            assert there == {f"m{i}": i for i in range(2_500)}
        lb.check()


def test_sums_and_events_whose_answers_are_lost_count_once(proxy: Proxy) -> None:
    with opened(proxy.url) as lb:
        lb.create(laurels.Board("r", columns=[laurels.Column(max=10)]))
        proxy.cut_after(b"sums")
        receipts = lb.submit_many("r", [("a", 4), ("a", 4), ("b", 1)], ranks=True)
        assert proxy.cut == 1
        assert [receipt.status for receipt in receipts] == ["applied"] * 3
        assert [receipt.score for receipt in receipts] == [4, 8, 1]
        assert [receipt.rank for receipt in receipts] == [1, 1, 2]
        proxy.cut_after(b"values")
        receipts = lb.submit_many("r", [("a", 2), ("a", 4), ("b", 1)], ranks=True)
        assert proxy.cut == 2
        assert [receipt.status for receipt in receipts] == ["applied", "refused", "applied"]
        assert [receipt.score for receipt in receipts] == [10, 10, 2]
        assert {entry.member: entry.score for entry in lb.export("r")} == {"a": 10, "b": 2}


def test_a_write_that_cannot_be_repeated_may_have_applied(proxy: Proxy) -> None:
    with opened(proxy.url) as lb:
        lb.submit(BOARD, "a", 1)
        proxy.cut_after(b"careful", refuse=True)
        with pytest.raises(IndexUnavailable) as caught, hasty():
            lb.submit(BOARD, "careful", 7)
        assert caught.value.may_have_applied
        proxy.accept_again()
        again(lb)
        assert counted(lb) == {"a": 1, "careful": 7}
        lb.submit(BOARD, "other", 1)
        assert counted(lb) == {"a": 1, "careful": 7, "other": 1}


def test_other_writes_whose_answers_are_lost_can_be_repeated(proxy: Proxy) -> None:
    with opened(proxy.url) as lb:
        lb.submit(BOARD, "a", 1)
        proxy.cut_after(b"remove")
        with pytest.raises(IndexUnavailable) as caught:
            lb.remove(BOARD, "a")
        assert caught.value.may_have_applied
        again(lb)
        assert lb.remove(BOARD, "a") is False
        board = laurels.Board("new")
        proxy.cut_after(b"new")
        with pytest.raises(IndexUnavailable):
            lb.create(board)
        again(lb)
        lb.create(board, exist_ok=True)
        lb.submit("new", "a", 1)
        assert counted(lb, "new") == {"a": 1}


def test_a_query_whose_answer_is_lost_is_repeated(proxy: Proxy) -> None:
    with opened(proxy.url) as lb:
        lb.submit(BOARD, "a", 1)
        for _ in range(3):
            proxy.cut_after(b"requests")
            assert counted(lb) == {"a": 1}
        assert proxy.cut == 3


def test_concurrent_writes_whose_answers_are_lost_count_once(proxy: Proxy) -> None:
    with opened(proxy.url) as lb:
        with Writers(lb) as writers:
            for _ in range(10):
                writers.wait_for_more(20)
                proxy.cut_after(b"members")
        assert proxy.cut >= 5
        writers.check()
        assert not writers.doubtful
        assert counted(lb).keys() == set(writers.acknowledged)
        lb.check()
