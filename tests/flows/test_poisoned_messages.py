"""Messages that are no events, made to stop a source: each is rejected by name or skipped, and the
next one counts."""

from __future__ import annotations

from pathlib import Path

import pytest

import laurels

from .sourcing import NatsServer, count, scores


@pytest.fixture
def boards(tmp_path: Path) -> Path:
    with laurels.open(tmp_path / "boards") as lb:
        lb.create(laurels.Board("b"))
    return tmp_path / "boards"


def test_a_message_cannot_pretend_another_subject(boards: Path) -> None:
    """Who may publish to one subject feeds the board of that subject only."""
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
