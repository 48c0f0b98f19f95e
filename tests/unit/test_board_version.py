"""Versions of a board: when one covers another, and when a lower version in an answer replaces a
higher one that was seen before."""

from __future__ import annotations

import pytest

from laurels.core.board_version import BoardVersion, later, parse_version, version_of
from laurels.errors.service import InvalidHeader


def version(*offsets: int, tag: str = "b") -> BoardVersion:
    return BoardVersion(tag, offsets)


def test_a_version_covers_another_if_no_shard_is_behind() -> None:
    assert version(3, 4).covers(version(3, 4))
    assert version(3, 5).covers(version(3, 4))
    assert not version(4, 3).covers(version(3, 4))
    assert not version(2, 9).covers(version(3, 4))


def test_versions_of_another_board_or_number_of_shards_are_not_compared() -> None:
    assert version(1).covers(version(9, tag="c"))
    assert version(1).covers(version(9, 9))
    assert not version(1).is_comparable(version(1, tag="c"))


def test_the_text_has_a_number_for_each_shard() -> None:
    for offset, text in ((7, "1f.2:7"), ((3, 0, 12), "1f.2:3.0.12")):
        made = version_of("1f.2", offset)
        assert made.text() == text
        assert parse_version(text) == made


@pytest.mark.parametrize(
    "text",
    [
        *("", "7", "b:", ":7", "b:-1", "b:1.", "b:1..2", "b:1 ", "b:\u0661", "b:1;2", "b b:1"),
        "b:" + "1" * 20,
        "b" * 65 + ":1",
        "b:" + ".".join("1" * 65),
    ],
)
def test_any_other_text_is_refused_as_a_version(text: str) -> None:
    with pytest.raises(InvalidHeader, match="Laurels-As-Of of an earlier answer"):
        parse_version(text)


def test_the_newest_version_has_the_most_of_each_shard() -> None:
    assert later(None, None, version(3)) == version(3)
    assert later(version(3, 9), version(3, 1), version(5, 2)) == version(5, 9)
    assert later(version(9), None, version(5)) == version(9)


def test_an_answer_below_a_version_seen_before_its_query_lowers_the_version() -> None:
    assert later(version(9), version(8), version(5)) == version(5)
    assert later(version(9, tag="c"), version(9, tag="c"), version(5)) == version(5)


def test_a_tag_first_seen_while_a_query_was_in_progress_is_newer() -> None:
    new = version(1, tag="c")
    assert later(new, version(5), version(6)) == new
    assert later(new, version(5), version(4)) == new
    assert later(new, version(5), version(2, tag="c")) == version(2, tag="c")
    assert later(version(5), version(5), new) == new
    assert later(new, version(5), version(1, tag="d")) == version(1, tag="d")
