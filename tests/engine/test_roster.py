"""The roster gives each member one id, which never changes."""

from array import array
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from laurels.engine.roster.roster import Roster
from tests.engine.pair import intern

members = st.text(min_size=1, max_size=40).map(str.encode)


@given(batches=st.lists(st.lists(members, max_size=40), max_size=8), seed=st.integers(0, 2**64 - 1))
def test_ids_are_assigned_in_order_and_kept(batches: list[list[bytes]], seed: int) -> None:
    roster = Roster(seed)
    ids: dict[bytes, int] = {}
    for batch in batches:
        expected = [ids.setdefault(member, len(ids)) for member in batch]
        assert intern(roster, batch) == array("I", expected)
        roster.check()
    assert len(roster) == len(ids)
    texts = [member.decode() for member in ids]
    assert roster.find_many([*texts, "no such member"]) == array("q", [*ids.values(), -1])
    assert roster.names(array("I", ids.values())) == texts


def test_many_members_of_all_lengths_are_found() -> None:
    random = Random(1)
    batch = [random.randbytes(random.randint(1, 255)) for _ in range(60_000)]
    roster = Roster(9)
    ids = intern(roster, batch)
    assert len(roster) == len(set(batch))
    assert intern(roster, reversed(batch)) == array("I", reversed(ids))
    assert all(roster.find(member) == id for member, id in zip(batch, ids, strict=True))
    roster.check()


def test_members_that_differ_in_few_bytes_are_distinguished() -> None:
    batch = [b"\0" * n for n in range(1, 256)] + [b"\0" * n + b"\1" for n in range(254)]
    roster = Roster(0)
    assert intern(roster, batch) == array("I", range(len(batch)))
    roster.check()


def test_impossible_member_names_are_not_found() -> None:
    roster = Roster(0)
    intern(roster, [b"a"])
    assert roster.find(b"") == -1
    assert roster.find(b"a" * 256) == -1
    assert roster.find_many(["", "a" * 256, "a"]) == array("q", [-1, -1, 0])


def test_wrong_columns_are_refused() -> None:
    roster = Roster(0)
    for arena, lengths in [(b"ab", b"\1"), (b"ab", b"\2\1"), (b"ab", b"\2\0"), (b"", b"\1")]:
        with pytest.raises(ValueError, match="add up"):
            roster.intern(arena, lengths)
    with pytest.raises(TypeError, match="format"):
        roster.intern(b"ab", array("I", [2]))
    assert len(roster) == 0


def test_unknown_ids_raise_index_error() -> None:
    roster = Roster(0)
    intern(roster, [b"a"])
    for id in (-1, 1):
        with pytest.raises(IndexError):
            roster.name(id)
    with pytest.raises(IndexError):
        roster.names(array("I", [0, 1]))
    assert roster.name(0) == "a"


def test_memory_grows_with_the_members() -> None:
    roster = Roster(0)
    before = roster.nbytes
    assert before < 1_000
    intern(roster, [b"m%d" % i for i in range(5_000)])
    assert before < roster.nbytes < 5_000 * 40
