"""The errors of an index server.

This module does not import the client library, so that a program can catch the errors without it.
"""

from . import Conflict, Fault, InvalidInput, Unavailable

MAY_HAVE_APPLIED = ", and may have carried out the call"


class MissingRedis(InvalidInput):
    """The package for Redis and Valkey is not installed."""

    code = "missing_redis"
    advice = "in a checkout of laurels run pip install '.[redis]'"


class LedgerRequired(Conflict):
    """On an index server, an archive and prizes need a ledger, and the board names none."""

    code = "ledger_required"
    advice = "name a configured ledger, as in ledger='main', or keep the board in a folder"


class UnknownLedger(Conflict):
    """The board names a ledger that this process is not configured with."""

    code = "unknown_ledger"
    advice = (
        "set its URL as LAURELS_LEDGER_ and the name in capitals, or in [ledgers] of the settings "
        "file, for every process that opens the boards"
    )


class LedgerUnavailable(Unavailable):
    """The ledger of the board does not answer.

    Sealed periods that only the ledger has cannot be read, and closed periods wait for their seal.
    Everything else works.
    """

    code = "ledger_unavailable"
    advice = "try again when the database of the ledger answers"


class NotOnIndexServer(Conflict):
    """Boards on an index server do not have this yet."""

    code = "not_on_index_server"
    advice = "keep the board in a folder (`laurels copy`) to use it"


class IndexUnavailable(Unavailable):
    """The index server did not carry out the call, or did not confirm it in time.

    `may_have_applied` is True if a write may have been carried out, or may still be carried out
    later. It is False if the server refused the write before doing anything.
    """

    code = "index_unavailable"
    advice = "try again; a write that may have counted is safe to repeat with its event ids"

    def __init__(self, what: str, may_have_applied: bool = False) -> None:
        super().__init__(what)
        self.may_have_applied = may_have_applied
        self.counted: str | None = None
        """The part of the batch that was counted although the call failed, in words; None if no
        part was counted.
        """

    def note_read_only(self) -> None:
        """Record that the call only read, so that it cannot have changed anything."""
        self.may_have_applied = False
        self.what = self.what.replace(MAY_HAVE_APPLIED, "")


class IndexFull(IndexUnavailable):
    """The memory of the index server is full, so nothing was counted."""

    code = "index_full"
    advice = "give the server more memory or delete boards, then try again; reads still work"


class IndexMoving(IndexUnavailable):
    """The keys of the board are moving to another node of the cluster; nothing was done."""

    code = "index_moving"
    advice = "try again; calls succeed again once the slot has moved"


class IndexDenied(Fault):
    """The index server denies the user access, or the user lacks a permission."""

    code = "index_denied"
    advice = "check user and password in the URL, and the permissions of the user on the server"


class IndexFailed(Fault):
    """The index server answered with an error, and would answer a retry in the same way."""

    code = "index_failed"
    advice = "look for the error in the log of the server, and report it"


class IndexTooOld(Conflict):
    """The version of the index server is too old."""

    code = "index_too_old"
    advice = "use Redis 6.2 or later, or Valkey"


class WrongServer(Conflict):
    """The server does not match the URL."""

    code = "wrong_server"
    advice = "name a primary as redis://host:port/db, and a cluster as redis+cluster://host:port"
