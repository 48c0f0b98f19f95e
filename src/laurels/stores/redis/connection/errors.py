"""From what the client library raises to the error a caller gets.

The library tells kinds of errors apart by the words a message begins with: its own names for those
every server has ("ReadOnly: …"), the server's word for the others ("OOM: …"). What a script is
refused comes the same way, but from a Redis before 7 wrapped in its name and its line.
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

_NOT_NOW = {
    "BUSY": "it is busy with a script",
    "READONLY": "it is a replica",
    "LOADING": "it is loading what it had written",
    "BUSYLOADINGERROR": "it is loading what it had written",
    "MASTERDOWN": "it is a replica that has lost its primary",
    "CLUSTERDOWN": "the cluster is not whole",
    "MISCONF": "it cannot write to its disk",
    "NOREPLICAS": "it has fewer replicas than it wants",
}
"""What a server refuses before it has done anything. Inside a script, too: Redis checks these at
the first write and not after it, so that no script ends half-way; but see `_AT_ANY_WRITE`."""

_AT_ANY_WRITE = {"MISCONF"}
"""What servers before Redis 7 check at every write of a script and may notice in the middle; the
others of `_NOT_NOW` cannot begin to be so while it runs."""

_ON_THEIR_WAY = {"TRYAGAIN", "ASK", "MOVED"}
"""What keys that move are refused with, once the client library has followed them in vain: under
load a call is seen to be sent on (ASK) and sent back (MOVED) until it gives up."""
_FULL = "OOM"
_NO_PRIMARY = {"READONLY", "MASTERDOWN", "LOADING", "BUSYLOADINGERROR"}
"""What a server says that is no primary any more, or not yet again."""
_KILLED = "Script killed by user"
_NOT_LOCAL = "to access a non local key"
"""What a script is told that looks at a key of a slot that moves, however its server begins the
sentence: see `moving`."""
_CLUSTER_DOWN = "while the cluster is down"
_DENIED = {"NOAUTH", "WRONGPASS", "NOPERM", "AUTHENTICATIONFAILED", "PERMISSIONDENIED"}
DENIED_WORDS = ("NOAUTH", "WRONGPASS")
"""Somewhere in what is said when a connection is not let in."""
_UNSENT = ("maximum inflight", "No connection found")
_UNREACHED = "connect failed"


def word_of(message: str) -> str | None:
    """Return the word that says what kind of error it is; None where there is none."""
    found = _WORD.match(_unwrapped(message))
    return found[1] if found else None


def error_of(message: str, place: str) -> LaurelsError:
    """Return the error for what a server refused, or for what happened on the way there."""
    found = _WORD.match(unwrapped := _unwrapped(message))
    word, rest = (found[1].upper(), found[2]) if found else ("", message)
    if word in _NOT_NOW:
        maybe = unwrapped is not message and word in _AT_ANY_WRITE
        return IndexUnavailable(f"{place} refuses the call: {_NOT_NOW[word]}", maybe)
    if word == _FULL:
        return IndexFull(f"{place} refuses the call: its memory is full")
    if word in _DENIED:
        return IndexDenied(f"{place} denies the call ({word}: {_line(rest)})")
    if word in _ON_THEIR_WAY or _NOT_LOCAL in message:
        return IndexMoving(f"{place} refuses the call: the keys are on their way to another node")
    if _CLUSTER_DOWN in message:
        return IndexUnavailable(f"{place} refuses the call: {_NOT_NOW['CLUSTERDOWN']}")
    if _KILLED in message:
        return IndexUnavailable(f"{place} was told to end the script before it wrote anything")
    if message.startswith(_SIGNALLED) or (found and found[1].isupper()):
        return IndexFailed(f"{place} answered with an error ({_line(message)})")
    if _UNREACHED in message or any(part in message for part in _UNSENT):
        return IndexUnavailable(f"{place} was not asked ({_line(message)})")
    return unanswered(place, _line(message))


def is_lost(error: BaseException, message: str) -> bool:
    """Return whether a server that says this, or nothing, may have been replaced by another one."""
    if not isinstance(error, IndexUnavailable):
        return False
    word = (word_of(message) or "").upper()
    return error.may_have_applied or word in _NO_PRIMARY or _UNREACHED in message


def unanswered(place: str, why: str) -> IndexUnavailable:
    """Return the error for a call that was under way."""
    return IndexUnavailable(
        f"{place} did not answer ({why}){MAY_HAVE_APPLIED}", may_have_applied=True
    )


def _unwrapped(message: str) -> str:
    """What a script was refused, as it is told without one."""
    found = _IN_SCRIPT.search(message)
    return f"{found[1]}: {found[2]}" if found else message


def _line(text: str) -> str:
    """A message on one line, without what makes it long."""
    return " ".join(text.removeprefix(_SIGNALLED).split())[:200]
