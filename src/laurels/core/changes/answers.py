"""Changes as readers get them. A change is the effect of one accepted event, or of another write,
on one member of a board. Pure.

Changes are numerous and never part of a reference cycle, so the garbage collector does not track
them (`gc=False`). Thereby a ledger's sink writes a third more members per second.
"""

from collections.abc import Iterator
from typing import Any, Literal, SupportsIndex, overload

from msgspec import field
from msgspec.structs import replace

from laurels.model.answer import Answer
from laurels.model.score import Number, Score

ChangeKind = Literal[
    "event",
    "set",
    "remove",
    "data",
    "position",
    "create",
    "change",
    "delete",
    "mend",
    "close",
    "seal",
    "hide",
    "show",
    "disqualify",
    "payout",
    "confirm",
    "erase",
    "clear",
    "undelete",
    "initial",
    "initial_end",
]


SINK_PREFIX = "sink:"
"""The prefix of a sink's name in a board's `positions`, which also has the positions of sources."""

Delta = Number | tuple[Number | None, ...]


class ChangedRanking(Answer, frozen=True, omit_defaults=True, gc=False):
    """A member's entry in one ranking after a change; the score is None if the member is no longer
    ranked there.

    `labels` are the labels of the ranking's scope, None on a board without scopes. `reached_ms` is
    the time at which the score was reached, if this time decides between equal scores. `last_ms` is
    the time that decides the value of `last` columns.
    """

    window: str
    period: str | None = None
    labels: dict[str, str] | None = None
    score: Score | None = None
    reached_ms: int | None = None
    last_ms: int | None = None


class Change(Answer, frozen=True, gc=False):
    """The effect of one accepted event, or another write, on a board.

    `id` stays the same each time the change is read: board uid / shard / sequence / tag / number.
    `delta` has the amounts added to the `sum` columns, and None for other columns. `score` is the
    member's score in the window `all`, in the scope of all events; None without that window.
    `rankings` has the entries in `all` and calendar windows in which the event counted; for `mend`
    it has the new entry. Rankings of other windows change with time and are not listed. `data`
    depends on `kind`: for `data` it is the member's new data, for `position` the position of a
    source, for `create`, `change` and `undelete` the definition of the board, for `hide` the
    `reason`, `since_ms` and `until_ms`, for `close` and `seal` the window and the period, and for
    `seal` the revision, the number of entries and the digest. For `disqualify` it has the same
    fields as for `seal`, and the reason; for `payout` the payout that is due; for `confirm` the
    payout's id and the reference; for `erase` the reason, and the token that replaces the member.
    The last change of a board is `delete`, unless `undelete` follows.
    """

    id: str
    board: str
    kind: ChangeKind
    at_ms: int
    member: str | None = None
    event_id: str | None = None
    labels: dict[str, str] = field(default_factory=dict)
    delta: Delta | None = None
    score: Score | None = None
    rankings: list[ChangedRanking] = field(default_factory=list)
    data: Any = None


class ChangePage(Answer, frozen=True):
    """Changes in their order, and the cursor after the last one. The page is a sequence of these
    changes. `more` tells whether further changes exist already. `waiting` is the number of further
    changes; changes that only report the position of a sink are not included. It is 0 during the
    initial load."""

    changes: list[Change]
    cursor: str
    more: bool = False
    waiting: int = 0

    @property
    def is_end(self) -> bool:
        """Whether the last change of the page is the deletion of the board, so that no change
        follows. If the board was restored, `undelete` follows its deletion."""
        return bool(self.changes) and self.changes[-1].kind == "delete" and not self.more

    def __len__(self) -> int:
        return len(self.changes)

    def __iter__(self) -> Iterator[Change]:
        return iter(self.changes)

    @overload
    def __getitem__(self, at: SupportsIndex) -> Change: ...
    @overload
    def __getitem__(self, at: slice) -> list[Change]: ...
    @overload
    def __getitem__(self, at: str) -> Any: ...
    def __getitem__(self, at: SupportsIndex | slice | str) -> Any:
        return super().__getitem__(at) if isinstance(at, str) else self.changes[at]


class ChangedBoards(Answer, frozen=True):
    """The names of the boards with changes after a cursor, and the cursor of the next call.

    `boards` is None if it is not known which boards have changes: without a cursor, or after a
    restart of the store. The answer may be incomplete: if a process dies right after a write to a
    board on an index server, this board is missing. So each board has to be read at long intervals,
    too.
    """

    boards: list[str] | None
    cursor: str


class DeletedBoard(Answer, frozen=True):
    """A deleted board whose changes are still kept, until `until_ms`.

    `cursor` is a cursor before its oldest kept change, `last_cursor` one before its last change,
    the deletion. `definition` is its last definition, as an object. `position` is the position of
    the source that was asked for; None if there is none.
    """

    name: str
    uid: str
    deleted_ms: int
    until_ms: int
    definition: dict[str, Any]
    cursor: str
    last_cursor: str
    position: str | None = None


def is_left_out(change: Change) -> bool:
    """Return whether sinks do not send a change. They send neither changes that only report the
    position of a sink, nor payouts as changes, since they read payouts from the list of due
    payouts."""
    if change.kind == "payout":
        return True
    return change.kind == "position" and str(change.data["source"]).startswith(SINK_PREFIX)


_CONFIDENTIAL: frozenset[ChangeKind] = frozenset(
    {"hide", "disqualify", "payout", "confirm", "erase"}
)
"""The kinds of changes whose `data` is only for those who administer the board."""


def without_reasons(page: ChangePage) -> ChangePage:
    """Return a page for readers that do not administer the board: without the reasons for which
    members were hidden, disqualified or erased, and without the references of payments."""
    if all(change.kind not in _CONFIDENTIAL for change in page.changes):
        return page
    changes = [
        replace(change, data=None) if change.kind in _CONFIDENTIAL else change
        for change in page.changes
    ]
    return replace(page, changes=changes)
