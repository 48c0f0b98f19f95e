"""Helpers for the tests of the archive: rankings as sorted lists, and archives that have them."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import NamedTuple

from laurels.core.entry_columns import EntryColumns
from laurels.model.rules import RankStyle
from laurels.stores.local.archive.archive import Archive
from laurels.stores.local.archive.folder import MemorySegments
from laurels.stores.local.archive.ranking_form import FrozenRanking
from laurels.stores.local.archive.segment import ArchivedPeriod, PeriodKey

KEY = PeriodKey("uid", "month", 1_790_000_000_000)


class Row(NamedTuple):
    """An entry: its words, then its member, so that rows sort as rankings do."""

    words: tuple[int, ...]
    member: bytes


def random_secret(seed: int = 1) -> Callable[[int], bytes]:
    """Return a source of secrets that are the same in each run."""
    return random.Random(seed).randbytes


def rows_of(count: int, seed: int, *, words: int = 2, scores: int = 40) -> list[Row]:
    """Return this many entries in ranking order. Many of them have equal scores."""
    chance = random.Random(seed)
    return sorted(
        Row(
            (-chance.randrange(scores), *[chance.randrange(10**12) for _ in range(words - 1)]),
            f"m{number:0{chance.choice((5, 5, 9))}}".encode(),
        )
        for number in chance.sample(range(10 * count), count)
    )


def chunks_of(rows: list[Row], size: int = 700) -> Iterator[EntryColumns]:
    """Yield the entries as a ranking in memory lists them."""
    for at in range(0, len(rows), size):
        some = rows[at : at + size]
        words = [list(column) for column in zip(*[row.words for row in some], strict=True)]
        yield EntryColumns.of([row.member for row in some], words)


def frozen(
    rows: list[Row],
    scope: str = "",
    *,
    style: RankStyle = "ordinal",
    columns: int = 1,
    ordered: int = 2,
) -> FrozenRanking:
    return FrozenRanking(scope, style, columns, ordered, len(rows), chunks_of(rows))


def archived(*rankings: FrozenRanking) -> ArchivedPeriod:
    """Return a period of an archive in memory that has these rankings."""
    archive = Archive(MemorySegments(), random_secret())
    archive.write([(KEY, rankings)])
    period = archive.open(KEY)
    assert period is not None
    return period


def rank_in(rows: list[Row], position: int, style: RankStyle, columns: int = 1) -> int:
    """Return the rank of the entry at a position, counted one by one."""
    scores = [row.words[:columns] for row in rows[: position + 1]]
    if style == "ordinal":
        return position
    if style == "competition":
        return scores.index(scores[-1])
    return len({*scores}) - 1
