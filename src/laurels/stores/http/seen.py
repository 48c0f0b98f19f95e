"""The newest version of each board that a client has seen, so that no answer goes back."""

from collections import OrderedDict
from threading import Lock

from laurels.core.board_version import BoardVersion, later, parse_version
from laurels.errors.service import InvalidHeader

HEADER = "Laurels-As-Of"
MOST = 100_000
"""The most boards that are remembered; the one that was used least recently is forgotten first."""


class SeenVersions:
    """The versions by the names of the boards. Any thread may call its methods."""

    def __init__(self) -> None:
        self._versions: OrderedDict[str, BoardVersion] = OrderedDict()
        self._lock = Lock()

    def newest(self, board: str | None) -> BoardVersion | None:
        """Return the version to send with a request about a board."""
        return None if board is None else self._versions.get(board)

    def note(self, board: str | None, sent: BoardVersion | None, header: str | None) -> None:
        """Note the version in an answer to a request that was sent with the version `sent`."""
        if board is None or header is None:
            return
        try:
            version = parse_version(header)
        except InvalidHeader:
            return  # a service that sends something else in this header does not keep answers
        with self._lock:
            self._versions[board] = later(self._versions.get(board), sent, version)
            self._versions.move_to_end(board)
            if len(self._versions) > MOST:
                self._versions.popitem(last=False)
