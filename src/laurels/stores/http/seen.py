"""The newest version of each board that a client has seen. The client sends it with its requests,
so that its answers never go back."""

from collections import OrderedDict
from threading import Lock

from laurels.core.board_version import BoardVersion, later, parse_version
from laurels.errors.service import InvalidHeader

HEADER = "Laurels-As-Of"
MAX_BOARDS = 100_000
"""The maximum number of boards. The least recently used one is forgotten first."""


class SeenVersions:
    """The newest seen versions, by board name. Any thread may call its methods."""

    def __init__(self) -> None:
        self._versions: OrderedDict[str, BoardVersion] = OrderedDict()
        self._lock = Lock()

    def newest(self, board: str | None) -> BoardVersion | None:
        """Return the version to send with a request about a board; None if there is none."""
        return None if board is None else self._versions.get(board)

    def note(self, board: str | None, sent: BoardVersion | None, header: str | None) -> None:
        """Record the version in the header of an answer. `sent` is the version with which the
        request was sent."""
        if board is None or header is None:
            return
        try:
            version = parse_version(header)
        except InvalidHeader:
            return  # a service that uses the header for something else has no versions
        with self._lock:
            self._versions[board] = later(self._versions.get(board), sent, version)
            self._versions.move_to_end(board)
            if len(self._versions) > MAX_BOARDS:
                self._versions.popitem(last=False)
