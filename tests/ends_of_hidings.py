"""The ends of hidings among the changes of a board.

A hiding ends at its `until`, and the board records this later: a store in this process with its
next commit, an index server with the next work on the board, and neither before the due periods of
all boards are closed if the hiding is one on all boards. So the oracle does not predict the time of
this record. But each record has to be true, and none may be left out.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Any

from tests.definitions import Changed, Hiding
from tests.oracle_board import OracleBoard, described

Listed = tuple[str, dict[str, Any]]
"""A member, and a change of it."""


def without_ends(
    listed: Iterable[Listed], board: OracleBoard, now_ms: int, *, complete: bool
) -> list[Listed]:
    """Return the changes of a board without those that record the end of a hiding. An end is
    recorded once, after it has passed, with what then holds for the member. With `complete`, all
    ends that have passed must be recorded."""
    noted: dict[str, list[Changed]] = defaultdict(list)
    for change in board.changes:
        if change.kind in {"hide", "show", ""}:
            noted[change.member].append(change)
    followed = {member: _Member(changes) for member, changes in noted.items()}
    kept = [
        (member, change)
        for member, change in listed
        if change["kind"] not in {"hide", "show"}
        or member not in followed
        or not followed[member].is_end(change, now_ms)
    ]
    for name, member in followed.items():
        member.follow_all()
        current = board.hidden.get(name), board.hidden_everywhere.get(name)
        missing = [each for each in member.missing(now_ms) if each[1] == current[each[0]]]
        assert not (complete and missing), f"the ends of {missing} of {name} are not recorded"
    return kept


class _Member:
    """The hidings of a member while its changes are followed. `noted` are the remaining changes of
    the oracle that hide or show it."""

    def __init__(self, noted: list[Changed]) -> None:
        self._noted = noted
        self._hidings: tuple[Hiding | None, Hiding | None] = (None, None)
        self._since_ms = 0
        self._recorded: set[tuple[int, Hiding]] = set()
        self._earlier: set[tuple[int, Hiding]] = set()
        """Hidings that ended before the board was created or restored. Their ends may be recorded
        on the board."""
        self._replaced: list[tuple[int, Hiding]] = []
        """Hidings that had ended without a record when the last change of the oracle was followed.
        The record may be equal to this change, and come just before it."""

    def is_end(self, change: dict[str, Any], now_ms: int) -> bool:
        """Return whether a change records the end of a hiding. If it does not, it should be the
        next change of the oracle, and is followed."""
        at_ms, found = change["at_ms"], (change["kind"], change["data"])
        while self._noted and not self._noted[0].kind and self._noted[0].at_ms <= at_ms:
            self._follow()
        if self._noted:
            following = self._noted[0]
            if (following.at_ms, (following.kind, following.data)) == (at_ms, found):
                self._follow()
                return False
        ended = self.unrecorded(at_ms)
        if at_ms == self._since_ms:
            ended += self._replaced
        if not ended or not self._since_ms <= at_ms <= now_ms:
            return False
        left = [each for each in self._hidings if each is not None and not _is_over(each, at_ms)]
        if found != described(left[0] if left else None):
            return False
        self._since_ms = at_ms
        self._recorded.add(ended[0])
        self._replaced = [each for each in self._replaced if each != ended[0]]
        return True

    def follow_all(self) -> None:
        """Follow the remaining changes of the oracle."""
        while self._noted:
            self._follow()

    def unrecorded(self, at_ms: int) -> list[tuple[int, Hiding]]:
        """Return the present hidings that have ended without a record: 0 for one on the board and 1
        for one on all boards, with the hiding."""
        return [
            (i, hiding)
            for i, hiding in enumerate(self._hidings)
            if hiding is not None and _is_over(hiding, at_ms) and (i, hiding) not in self._recorded
        ]

    def missing(self, now_ms: int) -> list[tuple[int, Hiding]]:
        """Return those of them whose record is missing."""
        return [each for each in self.unrecorded(now_ms) if each not in self._earlier]

    def _follow(self) -> None:
        change = self._noted.pop(0)
        self._replaced = self.unrecorded(change.at_ms)
        self._hidings, self._since_ms = change.hidings, change.at_ms
        if not change.kind:
            self._earlier |= {*self.unrecorded(change.at_ms)}


def _is_over(hiding: Hiding, at_ms: int) -> bool:
    return hiding[2] is not None and at_ms >= hiding[2]
