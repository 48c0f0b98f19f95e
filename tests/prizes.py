"""Awards from a whole list of members in the plainest Python, with which laurels is compared."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from decimal import Decimal
from fractions import Fraction
from math import ceil
from random import Random
from typing import Any

Row = tuple[str, Any]
"""A member and its score."""
Award = tuple[str, str, int | None]
"""A member, the name of a prize, and what it wins in units of the prize's last decimal place."""
Reaches = Callable[[Any, Any], bool]
"""Whether a score has reached that of a prize."""


def at_least(score: Any, least: Any) -> bool:
    """Return whether a score has reached a prize's `at_least`, where a higher score is better."""
    return bool(score >= least)


def covered(prize: Any, ranked: Sequence[Row], reaches: Reaches = at_least) -> list[int]:
    """Return the positions, from 0, that a prize is for."""
    if prize.ranks is not None:
        return [i for i in range(len(ranked)) if prize.ranks[0] <= i + 1 <= prize.ranks[1]]
    if prize.percent is not None:
        return list(range(ceil(Fraction(str(prize.percent)) * len(ranked) / 100)))
    return [i for i, (_, score) in enumerate(ranked) if reaches(score, prize.at_least)]


def recounted(prizes: Any, ranked: Sequence[Row], reaches: Reaches = at_least) -> list[Award]:
    """Return the awards to a whole list of members, best first."""
    awards: list[Award] = []
    places = {prize.name: covered(prize, ranked, reaches) for prize in prizes.list}
    for position, (member, score) in enumerate(ranked):
        group = [i for i, (_, other) in enumerate(ranked) if other == score]
        for prize in prizes.list:
            units = None if prize.amount is None else int(Decimal(prize.amount) * 10**prize.scale)
            if prizes.ties == "split":
                assert units is not None
                pot = units * len([i for i in group if i in places[prize.name]])
                shares = [pot // len(group)] * len(group)
                for i in range(pot % len(group)):
                    shares[i] += 1
                if share := shares[group.index(position)]:
                    awards.append((member, prize.name, share))
            elif (position if prizes.ties == "first" else group[0]) in places[prize.name]:
                awards.append((member, prize.name, units))
    return awards


def random_prizes(random: Random) -> dict[str, Any]:
    """Return the definition of one to three prizes."""
    ties = random.choice(["all", "first", "split"])
    prizes: list[dict[str, Any]] = []
    for number in range(random.randint(1, 3)):
        first = random.randint(1, 5)
        prize: dict[str, Any] = random.choice(
            [
                {"ranks": [first, first + random.randint(0, 4)]},
                {"percent": random.randint(1, 100)},
                {"at_least": random.randint(1, 6)},
            ]
        )
        if ties == "split" or random.random() < 0.6:
            prize |= {"amount": random.randint(1, 50)}
        prizes.append({"name": f"p{number}", **prize})
    return {"list": prizes, "ties": ties, "pay_after": "2ms"}


def winnings(prizes: Any, ranked: Sequence[Row]) -> Counter[tuple[str, str]]:
    """Return, by member and prize, the amounts that the members of a whole list win. The list
    begins with the best. A prize without an amount counts as 1."""
    won: Counter[tuple[str, str]] = Counter()
    for member, prize, units in recounted(prizes, ranked):
        won[member, prize] += 1 if units is None else units
    return won


def balance(owed: Iterable[tuple[str, str, int | None, bool]]) -> Counter[tuple[str, str]]:
    """Return the total of payouts, by member and prize. A payout has a member, a prize, its units
    and whether they are taken back."""
    sums: Counter[tuple[str, str]] = Counter()
    for member, prize, units, withdrawn in owed:
        sums[member, prize] += (-1 if withdrawn else 1) * (1 if units is None else units)
    return Counter({key: count for key, count in sums.items() if count})
