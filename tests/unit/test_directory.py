"""The directory of scopes lists each scope once and in order. A listing can continue after any
scope."""

from __future__ import annotations

from random import Random

import pytest

from laurels.stores.local.index.directory import Directory

FORMS = ("room", "zone", "room,zone", "@room")


def some_scope(rng: Random) -> str:
    form = rng.choice(FORMS)
    if form.startswith("@"):
        return form
    return ",".join(f"{label}={rng.randrange(30)}" for label in form.split(","))


@pytest.mark.parametrize("seed", range(20))
def test_listing_agrees_with_a_plain_set(seed: int) -> None:
    rng = Random(seed)
    directory = Directory()
    there: set[str] = set()
    for _ in range(300):
        scope = some_scope(rng)
        if rng.random() < 0.4:
            directory.discard(scope)
            there.discard(scope)
        elif scope not in there:
            directory.add(scope)
            there.add(scope)
        form, limit = rng.choice(FORMS), rng.randint(0, 9)
        own = sorted(
            s for s in there if ",".join(part.partition("=")[0] for part in s.split(",")) == form
        )
        assert directory.count(form) == len(own)
        start = rng.choice(["", scope, *own])
        assert directory.after(form, start, limit) == [s for s in own if s > start][:limit]
        assert len(directory) == len(there)
        assert sorted(directory) == sorted(there)
    walked: list[str] = []
    place = None
    while page := directory.next(place, rng.randint(1, 7)):
        walked += [scope for _, scope in page]
        place = page[-1]
    assert walked == list(directory)


def test_a_listing_continues_after_its_position_is_removed() -> None:
    directory = Directory()
    for i in range(5):
        directory.add(f"room={i}")
    directory.add("zone=1")
    place = directory.next(None, 2)[-1]
    directory.discard("room=1")
    directory.discard("room=2")
    directory.add("room=0,zone=2")
    assert directory.next(place, 2) == [("room", "room=3"), ("room", "room=4")]
    for i in (0, 3, 4):
        directory.discard(f"room={i}")
    assert [scope for _, scope in directory.next(place, 9)] == ["room=0,zone=2", "zone=1"]
    assert directory.count("room") == 0
