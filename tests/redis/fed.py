"""Boards in several shards with rankings by a label."""

from __future__ import annotations

from collections import Counter
from typing import Any

import laurels

SHARDS = 3
MEMBERS = [f"m{i}" for i in range(12)]
WINDOWS = ["all", "h=hour:keep=3", "3h=rolling:3h/1h"]


def board(**more: Any) -> laurels.Board:
    """Return a board in several shards whose rooms are ranked."""
    defaults = {"windows": WINDOWS, "scopes": [[], ["room"]], "rank_by": ["room"], "shards": SHARDS}
    return laurels.Board("b", **{**defaults, **more})


def rooms(lb: laurels.Leaderboards, **arguments: Any) -> dict[str, Any]:
    """Return the scores in a ranking of rooms."""
    return {entry.member: entry.score for entry in lb.top("b", by="room", **arguments).entries}


def of_members(lb: laurels.Leaderboards, window: str = "all") -> dict[str, int]:
    """Return for each room the total of its members' scores, computed from the rankings of the
    rooms."""
    scores: Counter[str] = Counter()
    for room in lb.scopes("b", "room", limit=1_000):
        for entry in lb.export("b", window=window, labels={"room": room["room"]}):
            scores[room["room"]] += int(str(entry.score))
    return dict(scores)


def in_room(room: str, *members: str, value: int = 1) -> list[Any]:
    """Return events of members in a room."""
    return [(member, value, None, None, {"room": room}) for member in members]
