"""Translates errors of the client library into the errors that callers get.

The kind of an error is the first word of its message. The library has words of its own for common
errors ("ReadOnly: …"); other errors have the word of the server ("OOM: …"). An error inside a
script looks the same, except that Redis before version 7 wraps it in the name and line of the
script.
"""

import re

from laurels.errors import LaurelsError
from laurels.errors.index_server import (
    MAY_HAVE_APPLIED,
    IndexDenied,
    IndexFailed,
    IndexFull,
    IndexMoving,
    IndexUnavailable,
)

NO_SCRIPT = "NoScriptError"

_SIGNALLED = "An error was signalled by the server: - "
_WORD = re.compile(rf"(?:{_SIGNALLED})?([A-Za-z]+): (.*)", re.DOTALL)
_IN_SCRIPT = re.compile(
    r"Error running script \(call to f_\w+\): (?:@user_script: ?\d+: )+-([A-Z]+) (.*)", re.DOTALL
)

_TEMPORARY = {
    "BUSY": "it is busy with a script",
    "READONLY": "it is a replica",
    "LOADING": "it is loading its data from the disk",
    "BUSYLOADINGERROR": "it is loading its data from the disk",
    "MASTERDOWN": "it is a replica that has lost its primary",
    "CLUSTERDOWN": "the cluster is down",
    "MISCONF": "it cannot write to its disk",
    "NOREPLICAS": "it has fewer replicas than min-replicas-to-write",
}
"""Errors that a server raises before it has changed anything. While a script runs, Redis checks for
them only at the script's first write, so they never end a script half-way. The exceptions are in
`_CHECKED_AT_EVERY_WRITE`."""

_CHECKED_AT_EVERY_WRITE = {"MISCONF"}
"""Errors that Redis before version 7 checks for at every write, so that such an error may end a
script half-way. The conditions of the other errors in `_TEMPORARY` cannot begin while a script
runs."""

_SLOT_MOVING = {"TRYAGAIN", "ASK", "MOVED"}
"""Errors for keys of a slot that is being moved. Under load, the nodes may redirect a call (ASK)
and send it back (MOVED) several times; the client library then gives up and raises one of these
errors."""
_FULL = "OOM"
_NO_PRIMARY = {"READONLY", "MASTERDOWN", "LOADING", "BUSYLOADINGERROR"}
"""Errors of a server that is no longer a primary, or is not one yet."""
_KILLED = "Script killed by user"
_NOT_LOCAL = "to access a non local key"
"""A part of the error message when a script reads a key of a slot that is being moved. The text is
the same on all servers; see `moving`."""
_CLUSTER_DOWN = "while the cluster is down"
_DENIED = {"NOAUTH", "WRONGPASS", "NOPERM", "AUTHENTICATIONFAILED", "PERMISSIONDENIED"}
DENIED_WORDS = ("NOAUTH", "WRONGPASS")
"""Parts of error messages that mean that a connection is not authorized."""
_NOT_SENT = ("maximum inflight", "No connection found")
_NOT_CONNECTED = "connect failed"


def word_of(message: str) -> str | None:
    """Return the word by which a message of the server names the kind of its error, or None if it
    has no such word."""
    match = _WORD.match(_unwrapped(message))
    return match[1] if match else None


def error_of(message: str, place: str) -> LaurelsError:
    """Return the error for a call that the server has refused or that failed to reach the
    server."""
    match = _WORD.match(unwrapped := _unwrapped(message))
    word, rest = (match[1].upper(), match[2]) if match else ("", message)
    if word in _TEMPORARY:
        may_have_applied = unwrapped is not message and word in _CHECKED_AT_EVERY_WRITE
        return IndexUnavailable(f"{place} refuses the call: {_TEMPORARY[word]}", may_have_applied)
    if word == _FULL:
        return IndexFull(f"{place} refuses the call: its memory is full")
    if word in _DENIED:
        return IndexDenied(f"{place} denies the call ({word}: {_line(rest)})")
    if word in _SLOT_MOVING or _NOT_LOCAL in message:
        return IndexMoving(
            f"{place} refuses the call: the slot of the keys is being moved to another node"
        )
    if _CLUSTER_DOWN in message:
        return IndexUnavailable(f"{place} refuses the call: {_TEMPORARY['CLUSTERDOWN']}")
    if _KILLED in message:
        return IndexUnavailable(
            f"the script was ended by SCRIPT KILL on {place} before it wrote anything"
        )
    if message.startswith(_SIGNALLED) or (match and match[1].isupper()):
        return IndexFailed(f"{place} answered with an error ({_line(message)})")
    if _NOT_CONNECTED in message or any(part in message for part in _NOT_SENT):
        return IndexUnavailable(f"no call was sent to {place} ({_line(message)})")
    return unanswered(place, _line(message))


def is_lost(error: BaseException, message: str) -> bool:
    """Return whether an error may mean that another server has replaced this one: this server did
    not answer, is not a primary, or cannot be reached."""
    if not isinstance(error, IndexUnavailable):
        return False
    word = (word_of(message) or "").upper()
    return error.may_have_applied or word in _NO_PRIMARY or _NOT_CONNECTED in message


def unanswered(place: str, reason: str) -> IndexUnavailable:
    """Return the error for a call whose outcome is unknown."""
    return IndexUnavailable(
        f"{place} did not answer ({reason}){MAY_HAVE_APPLIED}", may_have_applied=True
    )


def _unwrapped(message: str) -> str:
    """Return the message of an error inside a script, without the script's name and line."""
    match = _IN_SCRIPT.search(message)
    return f"{match[1]}: {match[2]}" if match else message


def _line(text: str) -> str:
    """Return a message on one line, shortened."""
    return " ".join(text.removeprefix(_SIGNALLED).split())[:200]
