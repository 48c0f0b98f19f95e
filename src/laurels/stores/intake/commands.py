"""Turns a command into the write that carries it out, for stores that plan their writes."""

from collections.abc import Sized
from typing import Any, Protocol, TypeVar, Unpack

from msgspec import UNSET

from laurels.core.board_state import BoardState
from laurels.core.commands import (
    ChangeBoard,
    ClearBoard,
    Command,
    ConfirmPayout,
    CreateBoard,
    DeleteBoard,
    DisqualifyMember,
    HideEverywhere,
    HideMember,
    Mend,
    RemoveMember,
    SetData,
    ShowEverywhere,
    ShowMember,
    Submit,
    SubmitMany,
    UndeleteBoard,
)
from laurels.core.receipt import receipt_at
from laurels.errors import NotSealed
from laurels.model.event import member_bytes
from laurels.model.validation import quoted

from .accept import SubmitOptions, data_bytes
from .board_writes import change, clearing, creation, deletion, undeletion
from .confirming import confirmation
from .hiding import hiding, hiding_everywhere, showing, showing_everywhere
from .member_writes import DataChange, removal
from .mending import Mending
from .submission import Submission
from .writes import FoldedWrite

T = TypeVar("T")

ON_LOOP = 1_000
"""The number of events in a batch, or of entries in an answer, above which the work is done in a
thread instead of on the event loop."""


class SubmissionStore(Protocol):
    """The methods of a store that turn commands into writes."""

    def named(self, board: str) -> BoardState: ...

    def submission(
        self, board: str, events: Any, window: str | None, **options: Unpack[SubmitOptions]
    ) -> Submission: ...


def to_write(store: SubmissionStore, command: Command[Any]) -> FoldedWrite:
    """Return the write that carries out a command. Raise an error if the form of the command is
    invalid."""
    match command:
        case Submit(board, event, window, scope, absolute):
            return store.submission(
                board, [event], window, ranks=True, absolute=absolute, scope=scope
            )
        case SubmitMany():
            return store.submission(
                command.board,
                command.events,
                command.window,
                ranks=command.ranks,
                atomic=command.all_or_nothing,
                key=command.key,
                position=command.position,
                scope=command.scope,
                arrived_ms=command.arrived_ms,
            )
        case SetData(board, member, data, before):
            expected = UNSET if before is UNSET else data_bytes(before)
            state = store.named(board)
            return DataChange(state, member_bytes(member), data_bytes(data), expected)
        case RemoveMember(board, member):
            return removal(store.named(board), member_bytes(member))
        case HideMember(board, member, reason, until_ms):
            return hiding(store.named(board), member, reason, until_ms)
        case ShowMember(board, member):
            return showing(store.named(board), member)
        case HideEverywhere(member, reason, until_ms):
            return hiding_everywhere(member, reason, until_ms)
        case ShowEverywhere(member):
            return showing_everywhere(member)
        case Mend(board, rankings, at_ms):
            return Mending(store.named(board), rankings, at_ms)
        case ConfirmPayout(board, payout, reference):
            return confirmation(board, payout, reference)
        case DisqualifyMember(board):
            raise NotSealed(f"the board {quoted(board)} is in a store that seals no periods")
        case CreateBoard(definition, exist_ok):
            return creation(definition, exist_ok=exist_ok)
        case ChangeBoard(name, changes):
            return change(name, changes)
        case ClearBoard(name):
            return clearing(name)
        case UndeleteBoard():
            return undeletion(command)
        case DeleteBoard(name, is_moved):
            return deletion(name, is_moved=is_moved)
    raise TypeError(f"expected a command, got {command!r}")


def result_of(command: Command[T], committed: Any, place: int = 0) -> T:
    """Return the result of a command from the result of its write. For a single event, this is its
    receipt, which has the index `place` in the write; if the event was refused, raise its error."""
    result: Any = None
    if isinstance(command, Submit):
        result = receipt_at(committed, place)
    elif not isinstance(command, SetData | HideMember | HideEverywhere | DeleteBoard | ClearBoard):
        result = committed
    done: T = result
    return done


def is_long(command: Command[Any]) -> bool:
    """Return whether validating a command would block an event loop."""
    if isinstance(command, Mend):
        return sum([len(each.entries) for each in command.rankings]) > ON_LOOP
    if not isinstance(command, SubmitMany):
        return False
    events = command.events
    return command.is_large or not isinstance(events, Sized) or len(events) > ON_LOOP


def copy_event(event: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return an event with a copy of its labels. The event can then be accepted later, even if the
    caller changes the labels."""
    if type(event[-1]) is not dict:
        return event
    *others, labels = event
    return (*others, dict(labels))
