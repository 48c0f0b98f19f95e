"""Who wins which prizes: the rules of `core/prizes.py` are compared with a plain recount of the
whole list."""

from __future__ import annotations

from decimal import Decimal

from hypothesis import given
from hypothesis import strategies as st
from tests.prizes import Award, Row, covered, recounted

from laurels.core.prizes import TieGroup, end_of, prize_spans, wins
from laurels.model.prizes import Prizes, prizes_of


def awarded(prizes: Prizes, ranked: list[Row], page: int) -> tuple[list[Award], int]:
    """Return the awards by the rules, read in pages, and how many positions were read."""
    reached = [
        len([score for _, score in ranked if score >= prize.at_least])
        for prize in prizes.list
        if isinstance(prize.at_least, int)
    ]
    spans = prize_spans(prizes, len(ranked), reached)
    needed = end_of(spans)
    scores = [score for _, score in ranked]
    if needed and prizes.ties != "first":
        needed = len([score for score in scores if score >= scores[needed - 1]])
    awards: list[Award] = []
    at = 0
    while at < needed:
        start, size = scores.index(scores[at]), scores.count(scores[at])
        end = min(at + page, start + size, needed)
        members = [member for member, _ in ranked[at:end]]
        group = TieGroup(start, start + size)
        for win in wins(prizes, spans, group, members, at):
            assert ranked[win.position][0] == win.member
            awards.append((win.member, win.prize.name, win.units))
        at = end
    return awards, needed


RANKS = st.tuples(st.integers(1, 12), st.integers(0, 6)).map(
    lambda pair: {"ranks": [pair[0], pair[0] + pair[1]]}
)
PERCENTS = st.decimals("0.01", "100", places=2).map(lambda percent: {"percent": percent})
SCORES = st.integers(-1, 6).map(lambda score: {"at_least": score})
AMOUNTS = st.integers(1, 1_000).map(lambda units: {"amount": Decimal(units) / 100, "scale": 2})


@st.composite
def definitions(draw: st.DrawFn) -> Prizes:
    ties = draw(st.sampled_from(["all", "first", "split"]))
    prizes: list[dict[str, object]] = []
    for number in range(draw(st.integers(1, 4))):
        fields: dict[str, object] = draw(st.one_of(RANKS, PERCENTS, SCORES))
        if ties == "split" or draw(st.booleans()):
            fields = fields | draw(AMOUNTS)
        prizes.append({"name": f"p{number}", **fields})
    return prizes_of({"list": prizes, "ties": ties})


STANDINGS = st.lists(st.integers(0, 5), max_size=14).map(
    lambda scores: [(f"m{i:02}", score) for i, score in enumerate(sorted(scores, reverse=True))]
)


@given(definitions(), STANDINGS, st.integers(1, 5))
def test_awards_are_those_of_a_plain_recount(prizes: Prizes, ranked: list[Row], page: int) -> None:
    awards, needed = awarded(prizes, ranked, page)
    assert awards == recounted(prizes, ranked)
    if not needed:
        assert awards == []


@given(definitions().filter(lambda prizes: prizes.ties == "split"), STANDINGS)
def test_shares_add_up_to_the_amounts(prizes: Prizes, ranked: list[Row]) -> None:
    awards, _ = awarded(prizes, ranked, 3)
    for prize in prizes.list:
        shares = [units for _, name, units in awards if name == prize.name and units is not None]
        assert sum(shares) == (prize.amount_units or 0) * len(covered(prize, ranked))


def test_the_percentage_is_rounded_up_to_whole_positions() -> None:
    prizes = prizes_of({"list": [{"name": "p", "percent": "0.07"}]})
    ends = {total: prize_spans(prizes, total, [])[0].end for total in (0, 1, 1_428, 1_429, 10**7)}
    assert ends == {0: 0, 1: 1, 1_428: 1, 1_429: 2, 10**7: 7_000}


def test_a_tie_group_stands_at_its_best_position() -> None:
    prizes = prizes_of(
        {
            "list": [
                {"name": "gold", "ranks": [1, 1]},
                {"name": "silver", "ranks": [2, 2]},
                {"name": "ten", "ranks": [1, 10]},
            ]
        }
    )
    awards, _ = awarded(prizes, [("a", 5), ("b", 5), ("c", 4)], 10)
    assert awards == [
        ("a", "gold", None),
        ("a", "ten", None),
        ("b", "gold", None),
        ("b", "ten", None),
        ("c", "ten", None),
    ]


def test_what_cannot_be_shared_equally_goes_to_the_first_members() -> None:
    prizes = prizes_of(
        {"list": [{"name": "p", "ranks": [1, 2], "amount": "0.05", "scale": 2}], "ties": "split"}
    )
    awards, _ = awarded(prizes, [("a", 5), ("b", 5), ("c", 5)], 10)
    assert awards == [("a", "p", 4), ("b", "p", 3), ("c", "p", 3)]


def test_a_share_of_nothing_is_no_award() -> None:
    prizes = prizes_of({"list": [{"name": "p", "ranks": [1, 1], "amount": 1}], "ties": "split"})
    awards, _ = awarded(prizes, [("a", 5), ("b", 5)], 10)
    assert awards == [("a", "p", 1)]
