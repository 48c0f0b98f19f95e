"""All states of a board, and a check of which state an answer shows.

The test makes one write after the other, so it knows each state of the board, and from when until
when the board was in this state. An answer has to show exactly one of these states, as a whole.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import msgspec
from msgspec import Struct

from laurels.core.board_version import BoardVersion, parse_version

MAX_AGE_NS = 1_000_000_000
HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS
Position = tuple[int, tuple[int, ...]]
"""A version of the board in a form that can be ordered: how many boards of this name were created
before this one, and the offsets of the version."""


class State(Struct, frozen=True):
    """A state of the board: the scores in `all` and in each day. It began at `began_ms` by the
    boards' clock, and at `began_ns` by the clock that measures the ages of answers. If `version` is
    None, the board did not exist."""

    version: BoardVersion | None
    scores: Mapping[str, int]
    days: Mapping[str, Mapping[str, int]]
    began_ms: int
    began_ns: int


class Asked(Struct, frozen=True):
    """A request. When it was sent, the history had `states` states, the boards' clock showed
    `now_ms`, and the clock that measures ages showed `elapsed_ns`. `sent` is the version that the
    client sent with it, or None."""

    path: str
    states: int
    now_ms: int
    elapsed_ns: int
    sent: BoardVersion | None = None


class History:
    """The states of the board. `boundary_ms` is the last boundary that has passed."""

    def __init__(self) -> None:
        self.states = [State(None, {}, {}, 0, 0)]
        self.boundary_ms = 0
        self._tags: list[str] = []
        self._refresh: tuple[int, Position] = (0, (-1, ()))

    def add(self, state: State) -> None:
        if state.version is not None and state.version.tag not in self._tags:
            self._tags.append(state.version.tag)
        self.states.append(state)

    def note_refresh(self, version: BoardVersion) -> None:
        """Note that from now on the refreshed window shows this version or a later one."""
        self._refresh = len(self.states), self.position(version)

    def position(self, version: BoardVersion) -> Position:
        """Return a version in the form in which it can be compared with others."""
        return self._tags.index(version.tag), version.offsets

    def ensure_allowed(
        self,
        asked: Asked,
        now_ms: int,
        status: int,
        headers: Mapping[str, str],
        content: bytes,
    ) -> BoardVersion | None:
        """Assert that an answer is one that the reader may get now. Return its version, or None if
        it says that the board or the member does not exist."""
        current = self.states[asked.states - 1 :]
        if status == 404:  # such an answer is never repeated from memory
            code = msgspec.json.decode(content)["code"]
            if code == "unknown_board":
                assert any(each.version is None for each in current), asked
            else:
                member = asked.path.partition("member=")[2]
                assert any(member not in each.scores for each in current), asked
            return None
        assert status == 200, (asked, content)
        version = parse_version(headers["Laurels-As-Of"])
        position = self.position(version)
        at = max(
            number
            for number, each in enumerate(self.states)
            if each.version is not None and self.position(each.version) <= position
        )
        assert self.states[at].version.tag == version.tag  # type: ignore[union-attr]
        self._ensure_young(asked, at)
        self._ensure_content(asked, now_ms, self.states[at], msgspec.json.decode(content))
        if asked.sent is not None:
            assert position >= self.position(asked.sent), asked
        return version

    def _ensure_young(self, asked: Asked, at: int) -> None:
        """Assert that, when the request was sent, state number `at` was the current state or had
        been replaced less than `max_age` ago. If the request was sent after the last boundary, the
        state must not have been replaced before this boundary."""
        if at + 1 == len(self.states):
            return
        successor = self.states[at + 1]
        assert successor.began_ns > asked.elapsed_ns - MAX_AGE_NS, (asked, self.states[at])
        if asked.now_ms >= self.boundary_ms:
            assert successor.began_ms >= self.boundary_ms, (asked, self.states[at])

    def _ensure_content(
        self, asked: Asked, now_ms: int, state: State, answer: dict[str, Any]
    ) -> None:
        """Assert that the answer shows the whole state and nothing else."""
        if "/count" in asked.path:
            assert answer["count"] == len(state.scores), asked
        elif "/standing" in asked.path:
            assert answer["score"] == state.scores[answer["member"]], asked
            assert answer["total"] == len(state.scores), asked
        elif "window=r" in asked.path:
            states, least = self._refresh
            assert state.version is not None
            shown = self.position(BoardVersion(state.version.tag, (answer["as_of"]["offset"],)))
            assert asked.states < states or shown >= least, asked
        else:
            scores = {entry["member"]: entry["score"] for entry in answer["entries"]}
            if "window=day" in asked.path:
                day = answer["as_of"]["period"]
                assert day in (day_of(asked.now_ms), day_of(now_ms)), asked
                assert scores == state.days.get(day, {}), asked
            else:
                assert scores == state.scores, asked


def day_of(ms: int) -> str:
    """Return the label of the day of an instant."""
    return f"{datetime.fromtimestamp(ms / 1_000, UTC):%Y-%m-%d}"
