"""Sessions: they remember what a reader has seen of the boards, so that its answers never go back.

The reader of a *session* is a connection to the service, or a program that opened the boards
itself. The session has a *floor* for each board: the newest version that the reader has seen, and
the moment of its last write. A cached answer is used only if it is not below the floor.

*Moments* are numbers that grow with every call of `AnswerSource.moment`, so they order the queries
and writes of one process without a clock.
"""

from collections import OrderedDict
from collections.abc import Callable

from msgspec import Struct

from laurels.core.board_version import BoardVersion, later

MAX_BOARDS = 1_000
"""The maximum number of boards for which the session of a connection has floors."""
MAX_SESSIONS = 20_000
"""The maximum number of connections with a session. By default fewer connections may be open at a
time, so the sessions that are forgotten are mostly those of closed connections."""


class Floor(Struct, frozen=True):
    """A lower bound for the answers about a board that a session may get: they cover `version`, and
    their queries were sent after `moment`."""

    version: BoardVersion | None = None
    moment: int = 0

    def admits(self, version: BoardVersion, moment: int) -> bool:
        """Return whether the session may get an answer that shows `version`, and whose query was
        sent at `moment`. A version with another tag than the floor's is not admitted, since it may
        be that of a board that has been deleted since."""
        floor = self.version
        if moment <= self.moment:
            return False
        return floor is None or (version.is_comparable(floor) and version.covers(floor))

    def raised_to(self, sent: BoardVersion) -> "Floor":
        """Return this floor, raised to the version `sent`: the newest version that the client has
        seen, as its request says."""
        if self.version is None or not sent.is_comparable(self.version):
            return Floor(sent, self.moment)
        return Floor(sent.joined(self.version), self.moment)


NO_FLOOR = Floor()


class Session:
    """The floors of one reader, by board name. Any thread may call its methods, since floors are
    immutable and replaced as a whole.

    A new session accepts cached answers to queries sent after the moment `least`. It has floors of
    at most `most` boards. If one more would be added, the session forgets all its floors instead,
    and then accepts only answers to queries that are sent after that.
    """

    def __init__(self, moment: Callable[[], int], most: int = MAX_BOARDS, least: int = 0) -> None:
        self._moment = moment
        self._most = most
        self._floors: dict[str, Floor] = {}
        self._lowest = Floor(None, least)
        self.used = least
        """The moment at which the session was last used."""

    def floor(self, board: str) -> Floor:
        """Return the floor of a board."""
        return self._floors.get(board, self._lowest)

    def note_answer(self, board: str, version: BoardVersion, before: Floor = NO_FLOOR) -> None:
        """Record that the reader has received an answer that shows `version`. `before` was the
        floor when the query was sent."""
        floor = self.floor(board)
        newest = later(floor.version, before.version, version)
        if newest != floor.version:
            self._put(board, Floor(newest, floor.moment))

    def note_write(self, board: str) -> None:
        """Record that the reader has written to a board. Answers to earlier queries are below the
        floor from now on."""
        self._put(board, Floor(self.floor(board).version, self._moment()))

    def note_any_write(self) -> None:
        """Record that the reader may have written to any board."""
        self._lowest = Floor(None, self._moment())
        self._floors = {}

    def _put(self, board: str, floor: Floor) -> None:
        if len(self._floors) >= self._most and board not in self._floors:
            self.note_any_write()
        else:
            self._floors[board] = floor


class ConnectionSessions:
    """The sessions of the connections to a service, by the address and port of the client.

    Since the end of a connection is not reported here, the least recently used sessions are
    forgotten. A connection without a session gets a new one, which accepts only answers to queries
    sent after the last use of every forgotten session. So the connection's answers never go back.
    """

    def __init__(self, moment: Callable[[], int], most: int = MAX_SESSIONS) -> None:
        self._moment = moment
        self._most = most
        self._sessions: OrderedDict[str, Session] = OrderedDict()
        self._forgotten = 0
        """The latest moment at which a forgotten session was used."""

    def of(self, client: str) -> Session:
        """Return the session of a connection, created if it is missing."""
        session = self._sessions.get(client)
        if session is None:
            session = self._sessions[client] = Session(self._moment, least=self._forgotten)
            if len(self._sessions) > self._most:
                _, unused = self._sessions.popitem(last=False)
                self._forgotten = max(self._forgotten, unused.used)
        else:
            self._sessions.move_to_end(client)
        session.used = self._moment()
        return session
