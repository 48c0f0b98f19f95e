"""Sessions: an answer is not admitted if it is older than what the reader has seen or written."""

from __future__ import annotations

from itertools import count

from laurels.core.board_version import BoardVersion
from laurels.stores.answers.sessions import ConnectionSessions, Floor, Session


def version(*offsets: int, tag: str = "b") -> BoardVersion:
    return BoardVersion(tag, offsets)


def session(most: int = 100) -> Session:
    return Session(count(1).__next__, most)


def test_a_new_session_admits_every_answer() -> None:
    assert session().floor("b").admits(version(0), 1)


def test_an_answer_older_than_a_seen_one_is_not_admitted() -> None:
    reader = session()
    reader.note_answer("b", version(5))
    assert not reader.floor("b").admits(version(4), 1)
    assert reader.floor("b").admits(version(5), 1)
    assert reader.floor("c").admits(version(4), 1)
    reader.note_answer("b", version(3))
    assert not reader.floor("b").admits(version(4), 1)


def test_an_answer_with_another_tag_is_not_admitted() -> None:
    reader = session()
    reader.note_answer("b", version(5))
    for other in (version(9, tag="c"), version(9, 9)):
        assert not reader.floor("b").admits(other, 1)
        assert not Floor().raised_to(version(5)).admits(other, 1)


def test_a_new_tag_replaces_the_versions_seen_before() -> None:
    reader = session()
    reader.note_answer("b", version(5))
    reader.note_answer("b", version(1, tag="c"), before=reader.floor("b"))
    assert reader.floor("b").admits(version(1, tag="c"), 1)
    assert not reader.floor("b").admits(version(9), 1)


def test_an_answer_that_is_delivered_after_a_newer_tag_does_not_bring_back_the_old_one() -> None:
    reader = session()
    reader.note_answer("b", version(5))
    early = reader.floor("b")
    reader.note_answer("b", version(1, tag="c"), before=early)
    reader.note_answer("b", version(6), before=early)
    assert reader.floor("b").version == version(1, tag="c")


def test_an_answer_of_a_server_that_lost_changes_lowers_the_floor() -> None:
    reader = session()
    reader.note_answer("b", version(5))
    reader.note_answer("b", version(2), before=reader.floor("b"))
    assert reader.floor("b").admits(version(2), 1)


def test_an_answer_to_a_query_from_before_a_write_is_not_admitted() -> None:
    moment = count(1).__next__
    reader = Session(moment)
    early = moment()
    reader.note_write("b")
    assert not reader.floor("b").admits(version(9), early)
    assert reader.floor("b").admits(version(9), moment())
    assert reader.floor("c").admits(version(9), early)
    reader.note_any_write()
    assert not reader.floor("c").admits(version(9), early)


def test_a_request_with_a_version_of_its_own_raises_the_floor() -> None:
    reader = session()
    reader.note_answer("b", version(5, 1))
    raised = reader.floor("b").raised_to(version(3, 4))
    assert raised == Floor(version(5, 4))
    assert reader.floor("b") == Floor(version(5, 1))
    assert raised.raised_to(version(1, tag="c")).version == version(1, tag="c")


def test_a_session_of_too_many_boards_admits_only_later_answers() -> None:
    moment = count(1).__next__
    reader = Session(moment, most=3)
    early = moment()
    for board in "abcd":
        reader.note_answer(board, version(5))
    assert not any(reader.floor(board).admits(version(9), early) for board in "abcdx")
    assert all(reader.floor(board).admits(version(1), moment()) for board in "abcdx")


def test_a_forgotten_connection_never_goes_back() -> None:
    moment = count(1).__next__
    sessions = ConnectionSessions(moment, most=2)
    early = moment()
    sessions.of("a").note_answer("b", version(5))
    for client in "xyz":
        sessions.of(client)
    assert not sessions.of("a").floor("b").admits(version(4), early)
    assert sessions.of("a").floor("b").admits(version(5), moment())


def test_a_connection_keeps_its_session() -> None:
    sessions = ConnectionSessions(count(1).__next__, most=2)
    sessions.of("a").note_answer("b", version(5))
    for client in "xyz":
        sessions.of(client)
        assert not sessions.of("a").floor("b").admits(version(4), 100)
