"""The peers over HTTP: laurels, handlers that do nothing, and FastAPI over Redis."""

import sys
import sysconfig
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from http.client import HTTPConnection
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol, Self

import msgspec

from bench.http.process import HOST, Serving, on_core
from bench.http.traffic import written
from bench.peers import BOARD, TOP
from bench.peers.redis_server import SAFETY, Fsync, RedisServer
from bench.peers.redis_store import RedisStore
from bench.timing import Peer, Safety
from bench.workload import Population

_ASK_SECONDS = 300
_ANSWER = "/answer"
_JSON = {"content-type": "application/json"}
_MEMBERS_AT_ONCE = 1_000


class Paths(msgspec.Struct, frozen=True):
    """The paths of a peer; `standing` is the beginning of a path that ends with the member."""

    single: str
    batch: str
    standing: str
    top: str


class HttpPeer(Peer, Protocol):
    @property
    def rival(self) -> str:
        """The name of the peer in the report's rows of ratios; it is empty for laurels itself."""
        ...

    @property
    def port(self) -> int: ...

    @property
    def paths(self) -> Paths: ...

    @property
    def pids(self) -> Sequence[int]:
        """The processes whose processor time is measured."""
        ...

    def use(self) -> None:
        """Apply the settings of this peer to its server."""
        ...

    def scores(self, members: Sequence[str]) -> list[int] | None:
        """Return the current scores for verification, 0 for absent members. Return None if the peer
        stores nothing."""
        ...


class Laurels:
    """`laurels serve` on a folder, with one board with the window `all`."""

    ours = True
    name = "laurels"
    settings = "every commit on the disk"
    safety: Safety = "each commit"
    rival = ""
    paths = Paths(
        single=f"/v1/boards/{BOARD}/scores",
        batch=f"/v1/boards/{BOARD}/scores?receipts=none",
        standing=f"/v1/boards/{BOARD}/standing?member=",
        top=f"/v1/boards/{BOARD}/top?limit={TOP}",
    )

    def __init__(self, folder: Path, core: int) -> None:
        self._folder = folder
        self._core = core
        self.start()

    def start(self) -> None:
        """Start the server; return when it is ready."""
        program = Path(sysconfig.get_path("scripts")) / "laurels"
        command: list[str | Path] = [program, "serve", "--open", "--data", self._folder, "--port"]
        log = self._folder.with_name(f"{self._folder.name}.log")
        self._serving = Serving(command, self._core, log, ready="/readyz")

    def close(self) -> float:
        """Stop the server with SIGTERM; return the seconds until its process has ended."""
        return self._serving.end()

    @property
    def port(self) -> int:
        return self._serving.port

    @property
    def pids(self) -> Sequence[int]:
        return [self._serving.pid]

    def use(self) -> None:
        """Do nothing: this peer has only one setting."""

    def load(self, population: Population) -> None:
        """Create the board and load every member."""
        self._ask("PUT", f"/v1/boards/{BOARD}", {"windows": ["all"]})
        for batch in population.batches():
            self.send([(member, score) for member, score, _ in batch])

    def send(self, events: list[tuple[str, int]]) -> None:
        """Send events in one request; all of them must count."""
        answer = self._ask("POST", self.paths.batch, written(events))
        if answer["applied"] != len(events):
            raise AssertionError(f"{answer['applied']} of {len(events)} events were applied")

    def scores(self, members: Sequence[str]) -> list[int]:
        scores: dict[str, int] = {}
        for first in range(0, len(members), _MEMBERS_AT_ONCE):
            some = list(members[first : first + _MEMBERS_AT_ONCE])
            answer = self._ask("POST", f"/v1/boards/{BOARD}/standings", {"members": some})
            scores |= {entry["member"]: entry["score"] for entry in answer["entries"]}
        return [scores.get(member, 0) for member in members]

    def _ask(self, method: str, path: str, body: object) -> Any:
        return ask(self.port, method, path, body)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


class Handler:
    """A handler that does nothing, on the same server program as laurels."""

    ours = False
    name = "a handler that does nothing"
    safety: Safety = "memory"
    paths = Paths(_ANSWER, _ANSWER, f"{_ANSWER}?member=", _ANSWER)

    def __init__(self, interface: str, core: int, folder: Path) -> None:
        self.settings = {"rsgi": "granian, RSGI", "falcon": "granian, falcon (ASGI)"}[interface]
        self.rival = f"a handler, {self.settings}"
        command = [sys.executable, "-m", "bench.http.handlers", interface, _ANSWER]
        self._serving = Serving(command, core, folder / f"{interface}.log", ready=_ANSWER)

    @property
    def port(self) -> int:
        return self._serving.port

    @property
    def pids(self) -> Sequence[int]:
        return [self._serving.pid]

    def use(self) -> None:
        """Do nothing: there are no settings."""

    def scores(self, members: Sequence[str]) -> None:
        return None

    def close(self) -> None:
        self._serving.end()


class RedisService:
    """FastAPI on uvicorn, and a Redis server, both on the core of the servers."""

    def __init__(self, folder: Path, core: int) -> None:
        folder.mkdir()
        with ExitStack() as stack:
            with on_core(core):
                self.redis = stack.enter_context(RedisServer(folder))
            command = [sys.executable, "-m", "bench.http.redis_app", self.redis.socket]
            self.serving = Serving(command, core, folder / "uvicorn.log", ready="/ready")
            stack.callback(self.serving.end)
            self._running = stack.pop_all()

    def load(self, population: Population) -> None:
        """Load every member into the sorted set, and then switch on the append-only file."""
        RedisStore(self.redis).load(population)
        self.redis.use("everysec")

    def close(self) -> None:
        self._running.close()


class RedisPeer:
    """The service over Redis, with one setting of its append-only file."""

    ours = False
    name = "FastAPI, uvicorn, Redis"
    paths = Paths(
        single=f"/boards/{BOARD}/scores",
        batch=f"/boards/{BOARD}/batches",
        standing=f"/boards/{BOARD}/standing?member=",
        top=f"/boards/{BOARD}/top?limit={TOP}",
    )

    def __init__(self, service: RedisService, fsync: Fsync) -> None:
        self._store = service
        self._fsync: Fsync = fsync
        self.settings = f"AOF {fsync}"
        self.safety = SAFETY[fsync]
        self.rival = f"FastAPI and Redis, {self.settings}"
        self.port = service.serving.port
        self.pids: Sequence[int] = [service.serving.pid, service.redis.pid]

    def use(self) -> None:
        self._store.redis.use(self._fsync)

    def scores(self, members: Sequence[str]) -> list[int]:
        scores: Iterable[float | None] = self._store.redis.client.zmscore(BOARD, list(members))
        return [int(score or 0) for score in scores]


def ask(port: int, method: str, path: str, body: object = None) -> Any:
    """Return the decoded answer of a server. Raise AssertionError if it is not a success."""
    connection = HTTPConnection(HOST, port, timeout=_ASK_SECONDS)
    try:
        connection.request(method, path, msgspec.json.encode(body), _JSON)
        answer = connection.getresponse()
        content = answer.read()
    finally:
        connection.close()
    if answer.status >= 300:
        raise AssertionError(f"{method} {path}: {answer.status} {content.decode()}")
    return msgspec.json.decode(content)
