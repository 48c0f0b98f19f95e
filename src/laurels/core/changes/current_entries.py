"""The query for the current entries of a ranking, with which a reader of changes begins. Pure."""

from collections.abc import Sequence
from typing import Any

from msgspec import Struct

from laurels.core.changes.answers import ChangedRanking
from laurels.core.changes.pages import times_of
from laurels.core.index import Offset
from laurels.core.query import RankingQuery
from laurels.core.query_context import QueryContext
from laurels.core.read_plan import ReadPlan
from laurels.core.requests import ReadRequest, ReadResult
from laurels.core.standing import Page, words_at
from laurels.errors import InvalidCursor

WALK = "walk:"
"""The prefix of a page cursor in a ranking whose members are read in no particular order."""
WALK_WITHOUT_HEAD = "walk-all:"
"""The prefix of a page cursor in a ranking whose members are not all in order yet because the head
of its board was removed."""
Words = Sequence[Sequence[int]]


class CurrentEntries(Struct, frozen=True):
    """Some entries of a ranking, with the members' data; `next` is the cursor of the next page."""

    members: list[str]
    rankings: list[ChangedRanking]
    data: list[Any]
    next: str | None
    now_ms: int


class CurrentEntriesQuery(RankingQuery[CurrentEntries], frozen=True, kw_only=True):
    """The entries of a ranking, with the times that decide between equal scores."""

    limit: int = 1_000
    after: str | None = None

    @property
    def size(self) -> int:
        return self.limit

    def plan(self, now: QueryContext) -> ReadPlan[CurrentEntries]:
        rules = now.state.rules
        after = self.after or ""
        if rules.head or after.startswith(WALK_WITHOUT_HEAD):
            return self._plan_walk(now, self.after)
        if after.startswith(WALK):
            raise InvalidCursor("the head of the board was removed after the cursor was made")
        view = self._view(now, self.after).with_all_members()
        page = view.top(self.limit, 0, False, True)
        labels = dict(self.labels) if rules.scoped else None

        def entries(finished: Page, words: Words, kept: Sequence[int]) -> CurrentEntries:
            """Return the entries of the page at the indexes `kept`. `words` has all words of the
            page's entries, column by column."""
            rankings = [
                ChangedRanking(
                    finished.as_of.window,
                    finished.as_of.period,
                    labels,
                    finished.entries[i].score,
                    *times_of(words_at(words, i), rules),
                )
                for i in kept
            ]
            members = [finished.entries[i].member for i in kept]
            data = [finished.entries[i].data for i in kept]
            return CurrentEntries(members, rankings, data, finished.next, now.now_ms)

        def finish(
            results: Sequence[ReadResult], offset: Offset
        ) -> CurrentEntries | ReadPlan[CurrentEntries]:
            finished = page.finish(results, offset)
            assert not isinstance(finished, ReadPlan)
            if finished.certain is not None:
                return self._plan_walk(now, None)
            words = results[0].slices[0].words
            if not finished.entries or len(words) >= rules.entry_words:
                return entries(finished, words, range(len(finished.entries)))
            # An index server lists only the words that decide the order. The other words are read
            # afterwards. If a member changes between the two reads, the change follows later.
            members = tuple([entry.member for entry in finished.entries])

            def finish_whole(results: Sequence[ReadResult], _: Offset) -> CurrentEntries:
                located = results[0].located
                assert located is not None
                kept = [i for i, position in enumerate(located.positions) if position >= 0]
                return entries(finished, [*words, located.words[-1]], kept)

            request = ReadRequest(page.requests[0].key, members=members, whole=True)
            return ReadPlan((request,), finish_whole)

        return ReadPlan(page.requests, finish)

    def _plan_walk(self, now: QueryContext, after: str | None) -> ReadPlan[CurrentEntries]:
        """Return the plan for a ranking in which not all members are in order."""
        rules = now.state.rules
        prefix = WALK if rules.head else WALK_WITHOUT_HEAD
        place = (after or prefix).removeprefix(prefix)
        if after is not None and not after.startswith(prefix):
            raise InvalidCursor("the board got a head after the cursor was made")
        view = self._view(now)

        def finish(results: Sequence[ReadResult], offset: Offset) -> CurrentEntries:
            result = results[0]
            part = result.slices[0]
            as_of, scores, data = view.walked(result, offset)
            times = [times_of(words_at(part.words, i), rules) for i in range(len(scores))]
            rankings = [
                ChangedRanking(as_of.window, as_of.period, None, score, *of_score)
                for score, of_score in zip(scores, times, strict=True)
            ]
            more = prefix + result.walked if result.walked else None
            return CurrentEntries(part.members, rankings, data, more, now.now_ms)

        return ReadPlan((view.walk(place, self.limit),), finish)
