"""The members of a board that were written while it is copied."""

from collections.abc import Iterable
from threading import Lock
from typing import Any, TypeVar

from msgspec.structs import replace

from laurels.core.commands import Command, SetData, Submit, SubmitMany
from laurels.errors import LaurelsError
from laurels.model.event import member_bytes

T = TypeVar("T")


class TouchedMembers:
    """The members that were written since the last call of `take`. After a write whose members are
    not known, such as a removal, `is_spoiled` is true, and the copy has to be begun anew."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._members: set[bytes] = set()
        self.is_spoiled = False

    def add(self, members: Iterable[bytes] | None) -> None:
        """Add members. Call this before a write of these members and again after it. None stands
        for a write whose members are not known."""
        with self._lock:
            if members is None:
                self.is_spoiled = True
            else:
                self._members.update(members)

    def take(self) -> set[bytes]:
        """Return the members, and forget them."""
        with self._lock:
            members, self._members = self._members, set()
        return members


def read_again(command: Command[T]) -> Command[T]:
    """Return a command whose events can be read more than once."""
    if isinstance(command, SubmitMany) and not isinstance(command.events, list | tuple):
        with_list: Any = replace(command, events=list(command.events))
        again: Command[T] = with_list
        return again
    return command


def members_of(command: Command[Any]) -> set[bytes] | None:
    """Return the members whose rows or data a command may change; None if they are not known."""
    match command:
        case Submit(event=event):
            return members_of_events([event])
        case SubmitMany(events=events):
            return members_of_events(events)
        case SetData(member=member, data=data) if data is not None:
            return members_of_events([(member,)])
    return None


def members_of_events(events: Iterable[Any]) -> set[bytes]:
    """Return the members of events. Events without a valid member are left out, because the store
    refuses them."""
    members = set()
    for event in events:
        try:
            members.add(member_bytes(_member_of(event)))
        except LaurelsError:
            continue
    return members


def _member_of(event: Any) -> Any:
    if isinstance(event, tuple | list):
        return event[0] if event else None
    return event.get("member") if isinstance(event, dict) else getattr(event, "member", None)
