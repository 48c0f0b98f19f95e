"""The commands: every write to a board, as the caller requests it. A store validates a command and
executes it."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Generic, Literal, TypeVar

from msgspec import UNSET, Struct

from laurels.model.board import Board

from .erasing import Erasure
from .mending import RankingEntries
from .payouts import Payout, Revision
from .receipt import Receipt, Receipts

T = TypeVar("T")


class Command(Struct, Generic[T], frozen=True):
    """A write with a result of type T."""


SourcePosition = (
    tuple[str, str] | tuple[str, str, str | None] | tuple[str, str, str | None, Literal["behind"]]
)
"""The progress of a source: its name and a text. The optional third item is the text that must be
stored before the write, or None if no text may be stored. The optional fourth item, "behind", is
for a board whose shards have different positions: a shard that has the required text counts its
events, any other shard skips its events."""


class Submit(Command[Receipt], frozen=True):
    """Submits one event: (member, value, at, id, labels). With `absolute` the value is the member's
    new score."""

    board: str
    event: tuple[Any, ...]
    window: str | None = None
    scope: Sequence[str] | None = None
    absolute: bool = False


class SubmitMany(Command[Receipts], frozen=True):
    """Submits a batch of events, committed together. `arrived_ms` is the time at which the source's
    stream took the events. `is_large` means that validating the events may take long, even if there
    are few."""

    board: str
    events: Iterable[Any]
    window: str | None = None
    ranks: bool = False
    all_or_nothing: bool = False
    key: str | None = None
    position: SourcePosition | None = None
    scope: Sequence[str] | None = None
    arrived_ms: int | None = None
    is_large: bool = False


class SetData(Command[None], frozen=True):
    """Sets the JSON data of a member; None removes it. With `before`, the data is set only if the
    member's current data is `before`."""

    board: str
    member: str
    data: Any
    before: Any = UNSET


class RemoveMember(Command[bool], frozen=True):
    """Removes a member from every ranking of a board.

    The result is True if the member was in any.
    """

    board: str
    member: str


class HideMember(Command[None], frozen=True):
    """Hides a member: it is counted, but in no ranking, until it is shown again. With `until_ms` it
    is shown again at that time."""

    board: str
    member: str
    reason: str
    until_ms: int | None = None


class ShowMember(Command[bool], frozen=True):
    """Shows a hidden member again.

    The result is True if the member was hidden.
    """

    board: str
    member: str


class HideEverywhere(Command[None], frozen=True):
    """Hides a member on all boards, those created later included."""

    member: str
    reason: str
    until_ms: int | None = None


class ShowEverywhere(Command[bool], frozen=True):
    """Ends the hiding of a member on all boards.

    The result is True if the member was hidden there.
    """

    member: str


class EraseMember(Command[Erasure], frozen=True):
    """Erases a person: removes a member from all boards, and replaces it by `token` in the archive,
    in payouts and in the audit log."""

    member: str
    reason: str
    token: str


HidingCommand = HideEverywhere | ShowEverywhere
"""A write that hides a member on all boards, or shows it again."""

StoreCommand = HidingCommand | EraseMember
"""A write that concerns all boards of a store."""
ModeratingCommand = HideMember | ShowMember | HidingCommand
"""A write that hides a member of one board or of all, or shows it again."""


class Mend(Command[int], frozen=True):
    """Replaces entries of rankings as a whole; the result is the number of entries that were
    replaced. In event time the board's time becomes `at_ms`, if that is later."""

    board: str
    rankings: Sequence[RankingEntries]
    at_ms: int | None = None


class ConfirmPayout(Command[Payout], frozen=True):
    """Confirms that a payout of a board was paid, with the reference of the payment."""

    board: str
    payout: str
    reference: str


class DisqualifyMember(Command[Revision], frozen=True):
    """Makes a new revision of a sealed period without a member: in the scope of `labels`, or in all
    scopes if it is None."""

    board: str
    member: str
    window: str | None
    period: str | None
    labels: Mapping[str, str] | None
    reason: str


class CreateBoard(Command[Board], frozen=True):
    """Creates a board. With `exist_ok`, an equal board may already exist."""

    board: Board
    exist_ok: bool = False

    @property
    def defines(self) -> str:
        """The name of the board that this command defines."""
        return self.board.name


class ChangeBoard(Command[Board], frozen=True):
    """Changes the definition of a board."""

    name: str
    changes: Mapping[str, Any]

    @property
    def defines(self) -> str:
        """The name of the board."""
        return self.name


class UndeleteBoard(Command[Board], frozen=True):
    """Restores a removed board. `name` is the name that it had. If several removed boards had this
    name, `uid` selects one of them, by default the one that was removed last. With `new_name` the
    board has that name from here on."""

    name: str
    new_name: str | None = None
    uid: str | None = None

    @property
    def defines(self) -> str:
        """The name that the board has from here on."""
        return self.name if self.new_name is None else self.new_name


DefinitionCommand = CreateBoard | ChangeBoard | UndeleteBoard
"""A write whose result is the definition of a board."""


class DeleteBoard(Command[None], frozen=True):
    """Deletes a board with all its data. With `is_moved` the board continues in another store, so
    that its changes do not end."""

    name: str
    is_moved: bool = False


class ClearBoard(Command[None], frozen=True):
    """Removes all members of a board, and keeps its definition."""

    name: str


def board_of(command: Command[Any]) -> str:
    """Return the name of the board that a command other than a `StoreCommand` writes to."""
    match command:
        case CreateBoard() | ChangeBoard() | UndeleteBoard():
            return command.defines
        case DeleteBoard(name) | ClearBoard(name):
            return name
        case (
            Submit()
            | SubmitMany()
            | SetData()
            | RemoveMember()
            | HideMember()
            | ShowMember()
            | Mend()
        ):
            return command.board
        case ConfirmPayout() | DisqualifyMember():
            return command.board
    raise TypeError(f"expected a command, got {command!r}")
