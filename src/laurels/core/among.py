"""The entries of some members, with their ranks among these members alone."""

from collections.abc import Sequence
from typing import Any

from laurels.model.rules import Rules
from laurels.model.scale import Scale

from .head import rank_at
from .index import Located
from .requests import ReadResult
from .standing import Entry, decode_data, entry, public_rank, words_at


def among(
    members: Sequence[str], result: ReadResult, rules: Rules, window: str, scale: Scale
) -> list[Entry]:
    """Return the entries of the given members that are ranked, in ranking order, each with its rank
    among these members."""
    located = result.located
    if located is None:
        return []
    order = _ranking_order(members, located, rules.order_words(window))
    ranked = [members[i] for i in order]
    ranks = [rank_at(located, i) for i in order]
    words = [[column[i] for i in order] for column in located.words]
    scores = scale.scores(words)
    own = list(zip(*words[: rules.score_words(window)], strict=True))
    data_of_members: list[Any] = [None] * len(ranked)
    if result.data is not None:
        data_of_members = decode_data([result.data[-1][i] for i in order])
    return list(map(entry, ranked, ranks, scores, data_of_members, _places(own, rules)))


def _places(scores: Sequence[tuple[int, ...]], rules: Rules) -> list[int]:
    """Return the ranks of members among themselves, from 1, in the board's rank style.

    `scores` are the scores of these members as words, in ranking order.
    """
    places: list[int] = []
    for i, score in enumerate(scores):
        if i and rules.rank != "ordinal" and score == scores[i - 1]:
            places.append(places[-1])
        elif i and rules.rank == "dense":
            places.append(places[-1] + 1)
        else:
            places.append(public_rank(i))
    return places


def _ranking_order(members: Sequence[str], located: Located, width: int) -> list[int]:
    """Return the indexes of the requested members that are ranked, in ranking order: by position
    or, if positions are estimated, by the first `width` words and then by member."""
    ranked = [i for i, position in enumerate(located.positions) if position >= 0]
    if located.highs is None:
        return sorted(ranked, key=located.positions.__getitem__)
    words = located.words[:width]
    return sorted(ranked, key=lambda i: (words_at(words, i), members[i].encode()))
