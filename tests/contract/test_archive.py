"""The archive: every question about a sealed period is answered as it was from memory, and the
digest proves it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import laurels
from laurels.core.sealed_contents import DigestOfPieces, SealedPiece, SealedRevision
from laurels.core.standing import AsOf
from laurels.errors import (
    BeyondHead,
    InvalidCursor,
    InvalidLimit,
    NotSealed,
    PeriodExpired,
    UnknownRevision,
    UnknownWindow,
)
from tests.conftest import Scaled
from tests.contract.deployments import ARCHIVING, STORES, Deployment

HOUR = 3_600_000
DAY = 24 * HOUR
NOW_MS = 1_795_188_600_000  # Friday, 20 November 2026, 15:30 UTC
TODAY = "2026-11-20"


@pytest.fixture
def clock() -> laurels.ManualClock:
    return laurels.ManualClock(NOW_MS)


@pytest.fixture(params=ARCHIVING, ids=lambda implementation: implementation.name)
def deployment(
    request: pytest.FixtureRequest, tmp_path: Path, clock: laurels.ManualClock
) -> Iterator[Deployment]:
    """Return a deployment of each kind that has an archive."""
    with Deployment(request.param, tmp_path, clock) as deployment:
        yield deployment


@pytest.fixture
def lb(deployment: Deployment) -> laurels.Leaderboards:
    return deployment.lb


def filled(
    lb: laurels.Leaderboards, clock: laurels.ManualClock, window: str = "day:keep=1", **fields: Any
) -> None:
    """Create a board with many members in several blocks, many of which have equal scores."""
    windows = ["all", f"{window},archive=forever"]
    fields = {
        "scopes": [[], ["room"]],
        "rank_by": "room",
        "grace": "0s",
        "ledger": "main",
        **fields,
    }
    lb.create(laurels.Board("b", windows=windows, **fields))
    columns = len(fields.get("columns", [1]))
    for start in range(0, 1_400, 200):
        clock.advance(7)
        lb.submit_many(
            "b",
            [
                (f"m{i:04}", (i % 41, i % 7)[:columns], None, None, {"room": f"{i % 3}"})
                for i in range(start, start + 200)
            ],
        )
    lb.set_data("b", "m0042", {"n": 42})


def answers(lb: laurels.Leaderboards, window: str = "day") -> list[object]:
    """Return the answers to every question about a period."""
    found: list[object] = []
    for place in ({}, {"labels": {"room": "1"}}, {"labels": {"room": "none"}}, {"by": "room"}):
        of: dict[str, Any] = {"window": window, "period": TODAY, **place}
        page = lb.top("b", limit=600, with_data=True, **of)
        found.append(page)
        while page.next:
            page = lb.top("b", limit=600, after=page.next, **of)
            found.append(page)
        found.append(lb.top("b", limit=20, offset=505, **of))
        back = lb.top("b", limit=30, reverse=True, **of)
        found += [back, lb.top("b", limit=30, reverse=True, after=back.next, **of)]
        found.append(lb.range("b", low=10, high=12, limit=500, **of))
        found.append(lb.range("b", high=3, limit=5, offset=2, with_data=True, **of))
        found += [lb.count("b", **of), lb.count("b", low=7, high=7, **of)]
        for member in ("m0042", "m1399", "nobody", "1"):
            found.append(lb.standing("b", member, with_data=True, **of))
            found.append(lb.around("b", member, radius=3, **of))
            found.append(lb.rank("b", member, **of))
        members = ["m0007", "m0042", "nobody", "2", "m1000"]
        found += [lb.ranks("b", members, **of), lb.standings("b", members, with_data=True, **of)]
        found += [lb.at_rank("b", rank, **of) for rank in (1, 512, 513, 1_400, 2_000)]
        found += [lb.score_at_percentile("b", percent, **of) for percent in (0, 37.5, 100)]
        found.append(list(lb.export("b", **of)))
    return list(map(timeless, found))


def timeless(answer: Any) -> Any:
    """Return an answer without the offset of the log, and without cursors, which name a board by
    its number."""
    if isinstance(answer, (laurels.Page, laurels.Standing)):
        as_of = answer.as_of
        plain = AsOf(0, as_of.window, as_of.period, None, as_of.labels, as_of.by)
        return type(answer)(**{**_fields(answer), "as_of": plain})
    return answer


def _fields(answer: Any) -> dict[str, Any]:
    return {name: getattr(answer, name) for name in answer.__struct_fields__}


KINDS: list[dict[str, Any]] = [
    {},
    {"rank": "competition", "tie": "last"},
    {"rank": "dense", "tie": "member"},
    {"rank": "competition", "hide_zero": True},
    {
        "rank": "dense",
        "columns": [laurels.Column("level", order="asc"), laurels.Column("wins", scale=2)],
    },
    {"columns": [laurels.Column("best", op="last")], "tie_resolution": "1s"},
]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: ",".join(kind) or "plain")
def test_a_sealed_period_is_answered_as_it_was_from_memory(
    lb: laurels.Leaderboards, clock: laurels.ManualClock, kind: dict[str, Any]
) -> None:
    filled(lb, clock, **kind)
    before = answers(lb)
    clock.advance(2 * DAY)
    lb.submit("b", "m0042", (1, 1)[: len(kind.get("columns", [1]))], labels={"room": "1"})
    lb.seal()
    assert answers(lb) == before


def test_values_of_labels_whose_score_is_0_are_not_in_a_sealed_period(
    lb: laurels.Leaderboards, clock: laurels.ManualClock
) -> None:
    fields: dict[str, Any] = {"rank_by": "room", "hide_zero": True, "grace": "0s"}
    lb.create(laurels.Board("b", windows=["day:archive=forever"], ledger="main", **fields))
    lb.submit_many("b", [("ann", 3, None, None, {"room": "1"}), ("ben", 2), ("cid", -2)])
    lb.submit_many("b", [(m, n, None, None, {"room": "2"}) for m, n in [("ben", 4), ("cid", -4)]])
    before = timeless(lb.top("b", by="room", period=TODAY))
    assert [(entry.member, entry.score) for entry in before] == [("1", 3)]
    clock.advance(2 * DAY)
    lb.seal()
    assert timeless(lb.top("b", by="room", period=TODAY)) == before
    [sealed] = lb.archived("b")
    assert sealed.entries == 4  # three members and one room


def test_the_head_of_a_board_bounds_what_is_listed_of_a_sealed_period(
    deployment: Deployment, clock: laurels.ManualClock
) -> None:
    lb = deployment.lb
    windows = ["day:keep=1,archive=forever"]
    lb.create(laurels.Board("b", windows=windows, head=100, grace="0s", ledger="main"))
    lb.submit_many("b", [(f"m{i:03}", i) for i in range(120)])
    before = timeless(lb.top("b", period=TODAY, limit=200))
    assert len(before) == before.certain == 100
    clock.advance(2 * DAY)
    lb.seal()
    assert timeless(lb.top("b", period=TODAY, limit=200)) == before
    with suppress(BeyondHead):  # some stores archive only the head
        assert lb.rank("b", "m000", period=TODAY) == 120
    with pytest.raises(BeyondHead):
        lb.at_rank("b", 101, period=TODAY)


def test_the_data_of_members_is_that_of_now(
    lb: laurels.Leaderboards, clock: laurels.ManualClock
) -> None:
    filled(lb, clock)
    clock.advance(2 * DAY)
    lb.seal()
    lb.set_data("b", "m0042", {"n": "new"})
    entry = lb.standing("b", "m0042", window="day", period=TODAY, with_data=True)
    assert entry is not None
    assert entry.data == {"n": "new"}


def test_a_scope_that_only_the_archive_has_is_not_listed_after_the_seal(
    lb: laurels.Leaderboards, clock: laurels.ManualClock
) -> None:
    lb.create(
        laurels.Board(
            "b", windows=["day:keep=1,archive=forever"], scopes=[[], ["room"]], ledger="main"
        )
    )
    for i in range(3):
        lb.submit("b", "ann", 1, labels={"room": str(i)})
    clock.advance(3 * DAY)
    lb.scopes("b", "room")
    lb.seal()
    assert lb.scopes("b", "room") == []
    assert len(lb.top("b", period=TODAY, labels={"room": "2"})) == 1
    lb.submit("b", "ann", 1, labels={"room": "7"})
    assert lb.scopes("b", "room") == [{"room": "7"}]
    lb.check()


def test_the_sealed_periods_are_listed_newest_first(
    lb: laurels.Leaderboards, clock: laurels.ManualClock
) -> None:
    lb.create(
        laurels.Board(
            "b",
            windows=["day:archive=forever", "hour:keep=1,archive=2", "month"],
            grace="0s",
            ledger="main",
        )
    )
    assert lb.archived("b") == []
    for _ in range(4):
        lb.submit("b", "ann", 1)
        clock.advance(HOUR)
    clock.advance(DAY)
    lb.seal()
    listed = lb.archived("b")
    assert [(each.window, each.period) for each in listed] == [
        ("day", "2026-11-20"),
        ("hour", "2026-11-20T18+00:00"),
        ("hour", "2026-11-20T17+00:00"),
    ]
    assert [each.entries for each in listed] == [1, 1, 1]
    assert {each.revision for each in listed} == {0}
    assert all(each.end_ms <= each.sealed_ms <= clock.now_ms() for each in listed)
    assert listed[1].end_ms - listed[1].start_ms == HOUR
    assert lb.archived("b", "hour") == listed[1:]
    assert lb.archived("b", limit=1, offset=1) == listed[1:2]
    assert lb.archived("b", "month") == []
    with pytest.raises(UnknownWindow):
        lb.archived("b", "year")
    with pytest.raises(InvalidLimit):
        lb.archived("b", limit=10_001)
    with pytest.raises(PeriodExpired):
        lb.top("b", window="hour", period="2026-11-20T16+00:00")


def test_a_digest_is_computed_once_more_from_the_archive_and_from_the_log(
    deployment: Deployment, clock: laurels.ManualClock
) -> None:
    lb = deployment.lb
    filled(lb, clock)
    with pytest.raises(NotSealed):
        lb.verify("b", window="day", period=TODAY)
    clock.advance(2 * DAY)
    lb.remove("b", "m0042")
    lb.seal()
    lb.submit("b", "m0001", 99)
    [sealed] = lb.archived("b")
    found = lb.verify("b", window="day", period=TODAY)
    assert (found.window, found.period, found.revision) == ("day", TODAY, 0)
    assert (found.entries, found.verified) == (sealed.entries, True)
    assert found.digest == found.archive == sealed.digest
    assert found.log == (sealed.digest if deployment.kind in STORES else None)
    with pytest.raises(NotSealed):
        lb.verify("b", window="all")


def test_sealed_periods_are_the_same_after_a_restart_and_a_rebuild(
    deployment: Deployment, clock: laurels.ManualClock
) -> None:
    filled(deployment.lb, clock)
    before = answers(deployment.lb)
    clock.advance(2 * DAY)
    deployment.lb.seal()
    listed = deployment.lb.archived("b")
    deployment.lb.rebuild()
    assert answers(deployment.lb) == before
    if deployment.lasting:
        deployment.reopen()
    assert answers(deployment.lb) == before
    assert deployment.lb.archived("b") == listed
    assert deployment.lb.verify("b", window="day", period=TODAY).verified
    deployment.lb.check()


@pytest.mark.parametrize("limit", [1, 7, 600, 10_000])
def test_a_period_is_read_in_pieces_that_prove_its_digest(
    lb: laurels.Leaderboards, clock: laurels.ManualClock, limit: int, scaled: Scaled
) -> None:
    filled(lb, clock)
    clock.advance(2 * DAY)
    lb.seal()
    [sealed] = lb.archived("b")
    digest, after = DigestOfPieces(), None
    pieces: list[SealedPiece] = []
    while True:
        page = lb.archive_pieces("b", "day", TODAY, after=after, limit=limit)
        pieces += page.pieces
        if (after := page.next) is None:
            break
        if len(pieces) > scaled(200, 1_000):  # read the rest with one call
            limit = 10_000
    revision, *rest = pieces
    assert isinstance(revision, SealedRevision)
    assert (revision.window, revision.revision) == ("day", 0)
    assert revision.seal.sealed_ms == sealed.sealed_ms
    for piece in rest:
        assert not isinstance(piece, SealedRevision)
        digest.add(piece)
    assert digest.digest().hex() == revision.seal.digest.hex() == sealed.digest
    assert digest.entries == revision.seal.entries == sealed.entries


def test_pieces_are_refused_where_there_are_none(
    lb: laurels.Leaderboards, clock: laurels.ManualClock
) -> None:
    filled(lb, clock)
    with pytest.raises(NotSealed):
        lb.archive_pieces("b", "day", TODAY)
    clock.advance(2 * DAY)
    lb.seal()
    with pytest.raises(UnknownRevision):
        lb.archive_pieces("b", "day", TODAY, revision=1)
    with pytest.raises(UnknownRevision):
        lb.archive_pieces("b", "day", TODAY, revision=-1)
    for after in ("", "x", '["",-1]', "[5,5]", '["\\ud800",0]', '["",1e400]'):
        with pytest.raises(InvalidCursor):
            lb.archive_pieces("b", "day", TODAY, after=after)
    assert lb.archive_pieces("b", "day", TODAY, after='["zzz",0]').pieces == []
    assert lb.archive_pieces("b", "day", TODAY, after='["",99999999]').next is not None
