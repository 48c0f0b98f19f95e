"""The deleted boards whose changes a sink has not sent yet."""

from collections.abc import Container, Iterable, Sequence

import msgspec

from laurels.core.changes.answers import DeletedBoard
from laurels.core.changes.beginning import uid_of
from laurels.core.changes.cursor import is_end
from laurels.model.board import Board
from laurels.model.board_patterns import reaches

from .target import START_OVER


class DeletedBoards:
    """The deleted boards with changes that a sink has not sent: for each name, the boards that had
    it, in the order of their deletion. `patterns` are the patterns of the sink's boards."""

    def __init__(self, patterns: Sequence[str] | None) -> None:
        self._patterns = patterns
        self._by_name: dict[str, list[DeletedBoard]] = {}
        self._finished: set[str] = set()
        """The unique ids of the boards whose changes have been sent by this process."""

    def note(self, deleted: Iterable[DeletedBoard]) -> None:
        """Replace the boards by those in `deleted` that match the patterns and have changes that
        were not sent. `deleted` has all deleted boards that the store has now."""
        kept = [each for each in deleted if reaches(self._patterns, each.name)]
        self._finished.intersection_update([each.uid for each in kept])
        self._by_name = {}
        for each in kept:
            if each.uid not in self._finished and not is_end(each.position):
                self._by_name.setdefault(each.name, []).append(each)

    def names(self) -> Iterable[str]:
        """Return the names that the boards had."""
        return self._by_name.keys()

    def named(self, board: str) -> Sequence[DeletedBoard]:
        """Return the boards that had a name, in the order of their deletion."""
        return list(self._by_name.get(board, ()))

    def later(self, deleted: DeletedBoard) -> Container[str]:
        """Return the unique ids of the boards that had the name of `deleted` after it."""
        uids = [each.uid for each in self.named(deleted.name)]
        return uids[uids.index(deleted.uid) + 1 :] if deleted.uid in uids else ()

    def finish(self, uid: str | None) -> None:
        """Record that all changes of a board have been sent."""
        if uid is None:
            return
        self._finished.add(uid)
        for name, boards in list(self._by_name.items()):
            self._by_name[name] = [each for each in boards if each.uid != uid]
            if not self._by_name[name]:
                del self._by_name[name]


def definition_of(deleted: DeletedBoard) -> Board:
    """Return the last definition of a deleted board."""
    return Board.from_json(msgspec.json.encode(deleted.definition))


def position_in(
    deleted: DeletedBoard, stored: str | None, later: Container[str], *, holds_state: bool
) -> str | None:
    """Return the cursor from which the changes of a deleted board are sent, None if there is
    nothing to send. `stored` is the position of the sink under the board's name. It may be a
    position in another board of that name; `later` has the unique ids of those that had the name
    after this board. To a target that `holds_state` but has no position in this board, nothing is
    sent: it has no data of the board that the deletion would remove."""
    if stored == START_OVER:
        return deleted.last_cursor if holds_state else deleted.cursor
    uid = uid_of(stored)
    if uid == deleted.uid:
        return None if is_end(stored) else stored
    is_before = uid is None or (is_end(stored) and uid not in later)
    return deleted.cursor if is_before and not holds_state else None
