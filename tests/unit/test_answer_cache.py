"""The cache of encoded answers has a bounded number of bytes, and keeps what is used most."""

from __future__ import annotations

from msgspec import Struct

from laurels.core.queries import Top
from laurels.stores.answers.cache import LARGE, OVERHEAD, AnswerCache, AnswerKey

MOST = 1 << 20


class Kept(Struct, frozen=True):
    content: bytes
    is_dead: bool = False


def cache() -> AnswerCache[Kept]:
    return AnswerCache(MOST, lambda kept: kept.is_dead)


def key(number: int, board: str = "b", *, packed: bool = False) -> AnswerKey:
    return AnswerKey(board, Top(limit=number % 10_000, offset=number), packed)


def test_an_answer_is_found_by_its_board_query_and_encoding() -> None:
    answers = cache()
    assert answers.find(key(1)) is None
    answers.keep(key(1), Kept(b"answer"))
    assert answers.find(key(1)) == Kept(b"answer")
    assert answers.find(key(2)) is None
    assert answers.find(key(1, "c")) is None
    assert answers.find(key(1, packed=True)) is None
    answers.clear()
    assert answers.find(key(1)) is None
    assert answers.nbytes == 0


def test_large_answers_are_not_kept() -> None:
    answers = cache()
    answers.keep(key(1), Kept(bytes(LARGE)))
    assert answers.nbytes == 0
    small: AnswerCache[Kept] = AnswerCache(OVERHEAD + 200, lambda _: False)
    small.keep(key(1), Kept(bytes(200)))
    assert small.nbytes == 0
    small.keep(key(1), Kept(bytes(20)))
    assert small.find(key(1)) is not None


def test_a_long_query_counts_towards_the_size() -> None:
    answers = cache()
    answers.keep(AnswerKey("b", Top(after="c" * 5_000)), Kept(b"answer"))
    assert answers.nbytes > 5_000


def test_the_size_is_bounded_and_the_least_used_answers_are_dropped_first() -> None:
    answers = cache()
    for number in range(10):
        answers.keep(key(number), Kept(bytes(1_000)))
        assert answers.find(key(number)) is not None
        assert answers.find(key(number)) is not None
    for number in range(10, 5_000):
        answers.keep(key(number), Kept(bytes(1_000)))
        assert answers.nbytes <= MOST
    assert all(answers.find(key(number)) is not None for number in range(10))
    kept = sum(answers.find(key(number)) is not None for number in range(5_000))
    assert kept > 0.9 * MOST / (1_000 + OVERHEAD + 200)


def test_answers_that_can_never_be_used_again_are_dropped_before_all_others() -> None:
    answers = cache()
    for number in range(300):
        answers.keep(key(number), Kept(bytes(1_000), is_dead=True))
        for _ in range(5):
            answers.find(key(number))
    for number in range(300, 600):
        answers.keep(key(number), Kept(bytes(1_000)))
    assert all(answers.find(key(number)) is not None for number in range(300, 600))


def test_a_replaced_answer_counts_once_towards_the_size() -> None:
    answers = cache()
    for length in (1_000, 2_000, 500):
        answers.keep(key(1), Kept(bytes(length)))
        assert length < answers.nbytes < length + OVERHEAD + 200
