"""What a reader has seen of the boards, below which its answers never go back.

A *session* is a connection to the service, or a program that opened the boards itself. It has a
*floor* for each board: the newest version that it has seen, and the moment of its last write. An
answer from memory is used only if it is not below the floor.

*Moments* are numbers that grow with every call of `AsyncStore.moment`, so they order questions and
writes of one process without a clock.
"""

from collections import OrderedDict
from collections.abc import Callable

from msgspec import Struct

from laurels.core.board_version import BoardVersion, later

MOST_BOARDS = 1_000
"""The most boards of which the session of a connection remembers the floors."""
MOST_SESSIONS = 20_000
"""The most connections whose sessions are remembered, more than may be open at a time by
default."""


class Floor(Struct, frozen=True):
    """The oldest answer that a session may get about a board: it covers `version`, and was asked
    for after `moment`."""

    version: BoardVersion | None = None
    moment: int = 0

    def admits(self, version: BoardVersion, moment: int) -> bool:
        """Return whether an answer of that version, asked for at that moment, is not below. An
        answer with another tag is not admitted: it may be about a board that was deleted since."""
        floor = self.version
        if moment <= self.moment:
            return False
        return floor is None or (version.is_comparable(floor) and version.covers(floor))

    def raised_to(self, sent: BoardVersion) -> "Floor":
        """Return the floor of a request that sends the newest version it knows."""
        if self.version is None or not sent.is_comparable(self.version):
            return Floor(sent, self.moment)
        return Floor(sent.joined(self.version), self.moment)


NO_FLOOR = Floor()


class Session:
    """The floors of one reader, by the names of the boards. Any thread may call its methods: a
    floor is replaced as a whole.

    A session that has reached `most` boards forgets their floors. From then on only answers that
    are asked for later are above its floor.
    """

    def __init__(self, moment: Callable[[], int], most: int = MOST_BOARDS, least: int = 0) -> None:
        self._moment = moment
        self._most = most
        self._floors: dict[str, Floor] = {}
        self._lowest = Floor(None, least)
        self.used = least
        """The moment at which the session was last used."""

    def floor(self, board: str) -> Floor:
        """Return the floor of a board."""
        return self._floors.get(board, self._lowest)

    def saw(self, board: str, version: BoardVersion, before: Floor = NO_FLOOR) -> None:
        """Note that the reader has got an answer of that version to a question that was sent with
        the floor `before`."""
        floor = self.floor(board)
        newest = later(floor.version, before.version, version)
        if newest != floor.version:
            self._put(board, Floor(newest, floor.moment))

    def wrote(self, board: str) -> None:
        """Note that the reader has written to a board: answers asked for before now are below its
        floor."""
        self._put(board, Floor(self.floor(board).version, self._moment()))

    def wrote_any(self) -> None:
        """Note that the reader may have written to any board."""
        self._lowest = Floor(None, self._moment())
        self._floors = {}

    def _put(self, board: str, floor: Floor) -> None:
        if len(self._floors) >= self._most and board not in self._floors:
            self.wrote_any()
        else:
            self._floors[board] = floor


class ConnectionSessions:
    """The sessions of the connections to a service, by the address and port of the client.

    Nothing says when a connection is closed. So the sessions that were not used for longest are
    forgotten. A connection without a session gets one whose floor is above whatever a forgotten one
    has seen.
    """

    def __init__(self, moment: Callable[[], int], most: int = MOST_SESSIONS) -> None:
        self._moment = moment
        self._most = most
        self._sessions: OrderedDict[str, Session] = OrderedDict()
        self._forgotten = 0
        """The latest moment at which a forgotten session was used."""

    def of(self, client: str) -> Session:
        """Return the session of a connection."""
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
