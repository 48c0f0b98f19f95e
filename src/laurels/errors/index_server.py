"""The errors only an index on a server knows.

They stand apart from the client library, so that whoever catches them need not have it.
"""

from . import Conflict, Fault, InvalidInput, Unavailable

MAY_HAVE_APPLIED = ", and may have carried out the call"


class MissingRedis(InvalidInput):
    """The package that talks to Redis and Valkey is not installed."""

    code = "missing_redis"
    advice = "in a checkout of laurels run pip install '.[redis]'"


class IndexUnavailable(Unavailable):
    """The index server did not carry out the call, or did not say so in time.

    `may_have_applied` tells whether a write may have been carried out all the same, or may yet be:
    False where the server refused it before it did anything.
    """

    code = "index_unavailable"
    advice = "try again; a write that may have counted is safe to repeat with its event ids"

    def __init__(self, what: str, may_have_applied: bool = False) -> None:
        super().__init__(what)
        self.may_have_applied = may_have_applied
        self.counted: str | None = None
        """Which part of the batch was counted all the same, in words; None where none was."""

    def clear_doubt(self) -> None:
        """Removes what says that the call may have been carried out: it was one that reads."""
        self.may_have_applied = False
        self.what = self.what.replace(MAY_HAVE_APPLIED, "")


class IndexFull(IndexUnavailable):
    """The memory of the index server is full; it counted nothing."""

    code = "index_full"
    advice = "give the server more memory or take boards away, then try again; reading goes on"


class IndexMoving(IndexUnavailable):
    """The keys of the board are on their way to another node of the cluster; nothing was done."""

    code = "index_moving"
    advice = "try again; it goes on when the slot has moved"


class IndexDenied(Fault):
    """The index server does not let this user in, or not do what is needed."""

    code = "index_denied"
    advice = "check user and password in the URL, and the rights that the server gives the user"


class IndexFailed(Fault):
    """The index server answered with an error that trying again does not cure."""

    code = "index_failed"
    advice = "look for it in the log of the server, and report it"


class IndexTooOld(Conflict):
    """The index server has a version that lacks what is needed."""

    code = "index_too_old"
    advice = "use Redis 6.2 or later, or Valkey"


class WrongServer(Conflict):
    """The server is there, but it is not what the URL says."""

    code = "wrong_server"
    advice = "name a primary as redis://host:port/db, and a cluster as redis+cluster://host:port"
