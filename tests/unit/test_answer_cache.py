"""The cache of encoded answers has a bounded number of entries and a bounded size, for any
queries."""

from __future__ import annotations

from laurels.server.answers import answer_cache
from laurels.server.answers.answer_cache import LARGE, MOST, MOST_BYTES, AnswerCache

TOKEN = (1, 2, 3, False)


def test_an_answer_is_cached_by_its_request_and_token() -> None:
    cache = AnswerCache()
    cache.keep(("/top", "limit=1", None), TOKEN, "answer", 6)
    assert cache.find(("/top", "limit=1", None), TOKEN) == "answer"
    assert cache.find(("/top", "limit=1", None), (1, 3, 3, False)) is None
    assert cache.find(("/top", "limit=2", None), TOKEN) is None


def test_large_answers_and_requests_are_not_cached() -> None:
    cache = AnswerCache()
    cache.keep(("/top", "", None), TOKEN, "answer", LARGE)
    cache.keep(("/top", "", "*" * LARGE), TOKEN, "answer", 6)
    assert cache.nbytes == 0
    assert cache.find(("/top", "", None), TOKEN) is None


def test_the_oldest_answers_are_evicted_first() -> None:
    cache = AnswerCache()
    for number in range(2 * MOST):
        cache.keep(("/top", str(number), None), TOKEN, number, LARGE - 100)
        assert cache.nbytes <= MOST_BYTES
    kept = [n for n in range(2 * MOST) if cache.find(("/top", str(n), None), TOKEN) is not None]
    assert kept == list(range(2 * MOST - len(kept), 2 * MOST))
    assert len(kept) >= MOST_BYTES // LARGE


def test_a_replaced_answer_counts_once_towards_the_size() -> None:
    cache = AnswerCache()
    for _ in range(2 * MOST):
        cache.keep(("/top", "", None), TOKEN, "answer", LARGE // 2)
    assert cache.nbytes < LARGE
    assert answer_cache.MOST_BYTES >= LARGE
