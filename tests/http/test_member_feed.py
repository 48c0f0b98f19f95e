"""The live feed of a member: its rank, who passed it, and what it needs."""

from __future__ import annotations

from tests.http.test_feed import Watched, _by_hand, run

__all__ = ["_by_hand"]


def test_a_member_feed_reports_its_rank_and_who_passed_it() -> None:
    async def scenario(watched: Watched) -> None:
        lb = watched.lb
        frames, received = await watched.watch(member="ann")
        received.take(await anext(frames))
        assert (received.document["rank"], received.document["total"]) == (None, 0)
        for member, value, expected in (
            ("ann", 5, (1, 5, None, None)),
            ("bob", 3, None),
            ("bob", 9, (2, 5, 1, "bob")),
            ("ann", 20, (1, 25, 2, None)),
        ):
            await lb.submit("b", member, value)
            await watched.step()
            if expected is not None:
                received.take(await anext(frames))
                document = received.document
                names = ("rank", "score", "previous_rank", "overtaken_by")
                assert tuple(document[name] for name in names) == expected
        await lb.remove("b", "ann")
        await watched.step()
        received.take(await anext(frames))
        assert (received.document["rank"], received.document["previous_rank"]) == (None, 1)
        await frames.aclose()

    run(scenario)


def test_a_member_feed_reports_the_value_it_needs() -> None:
    async def scenario(watched: Watched) -> None:
        lb = watched.lb
        frames, received = await watched.watch(member="ann", to_rank=1)
        received.take(await anext(frames))
        assert received.document["needed"]["value"] == 0
        watched.clock.advance(1)
        for member, value, gap, needed in (
            ("bob", 9, None, 10),
            ("ann", 5, {"rank": 1, "gap": 4}, 5),
            ("bob", 1, {"rank": 1, "gap": 5}, 6),
            ("ann", 6, {"rank": 1, "gap": 0}, None),
        ):
            await lb.submit("b", member, value)
            watched.clock.advance(1)
            await watched.step()
            received.take(await anext(frames))
            assert received.document["to_rank"] == gap
            event = received.document["needed"]
            assert (None if event is None else event["value"]) == needed
        await frames.aclose()

    run(scenario)


def test_a_member_feed_goes_on_while_the_member_is_hidden() -> None:
    async def scenario(watched: Watched) -> None:
        lb = watched.lb
        await lb.submit_many("b", [("ann", 5), ("bob", 9)])
        frames, received = await watched.watch(member="ann", to_rank=1)
        received.take(await anext(frames))
        await lb.hide("b", "ann", "a bot")
        await watched.step()
        received.take(await anext(frames))
        assert (received.document["rank"], received.document["needed"]) == (None, None)
        await lb.show("b", "ann")
        await watched.step()
        received.take(await anext(frames))
        assert (received.document["rank"], received.document["needed"]["value"]) == (2, 4)
        await frames.aclose()

    run(scenario)
