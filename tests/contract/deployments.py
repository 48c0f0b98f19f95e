"""The implementations on which the contract tests run. A new implementation needs a line in
`IMPLEMENTATIONS`."""

from __future__ import annotations

import atexit
import os
import zlib
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, ClassVar, Protocol, Self
from unittest.mock import patch

from msgspec.structs import replace

import laurels
from laurels.model.rules import Rules
from laurels.stores.redis.index.calls import ShardCalls
from laurels.stores.redis.index.head import HeadSizes
from tests.flows.databases import RUNNING, MariaDB, Postgres
from tests.flows.sinking import drop
from tests.redis.cluster import Cluster
from tests.redis.sharing import SharedServer
from tests.serving import ADMIN_KEY, Served

Clock = laurels.Clock | str


class Place(Protocol):
    """A running deployment. `url` and `clock` are the arguments with which its boards are
    opened."""

    @property
    def url(self) -> str: ...

    @property
    def clock(self) -> Clock | None: ...

    def close(self) -> None: ...


@dataclass(frozen=True)
class InProcess:
    """Boards in the process that opens them."""

    url: str
    clock: Clock | None

    def close(self) -> None:
        pass


class OverHttp:
    """Boards of a server, which has its own clock."""

    clock = None

    def __init__(self, folder: Path, clock: Clock) -> None:
        self._served = Served(folder, clock)

    @property
    def url(self) -> str:
        return self._served.url

    def close(self) -> None:
        self._served.close()


def small_heads() -> Any:
    """Make an index server estimate ranks even on small boards, and keep the entries of hidden
    members even for small rankings. Return the patch, which the caller has to stop."""
    small = HeadSizes(
        slack=20, slack_share=0.2, capacity=8, sample=200, edges=128, step=0.05, width=0.2, least=8
    )
    patched = patch.multiple(ShardCalls, head_sizes=small, small_ranking=3)
    patched.start()
    return patched


def _ledger_in(folder: Path) -> Any:
    """Configure the ledger `main`, which boards on an index server need for an archive: a database
    beside a folder. Return the patch, which the caller has to stop."""
    url = f"sqlite:////{folder.parent / 'ledger.db'}"
    patched = patch.dict(os.environ, {"LAURELS_LEDGER_MAIN": url})
    patched.start()
    return patched


class OnRedis:
    """Boards on an index server that all tests of this process share; each test has its own key
    prefix."""

    _server: SharedServer | None = None

    def __init__(self, folder: Path, clock: Clock) -> None:
        if OnRedis._server is None:
            OnRedis._server = SharedServer()
            atexit.register(OnRedis._server.close)
        self.clock = clock
        prefix = OnRedis._server.key(f"{zlib.crc32(str(folder).encode()):x}:")
        self.url = f"{OnRedis._server.url}?prefix={prefix}"
        self._small = small_heads()
        self._ledger = _ledger_in(folder)

    def close(self) -> None:
        self._small.stop()
        self._ledger.stop()


class WithServer(OnRedis):
    """Boards on the same index server, with a ledger in a database server that all tests of this
    process share; each test has its own tables."""

    database: ClassVar[type[Postgres] | type[MariaDB]]
    _databases: ClassVar[dict[type[Postgres] | type[MariaDB], Postgres | MariaDB]] = {}

    def __init__(self, folder: Path, clock: Clock) -> None:
        super().__init__(folder, clock)
        self._ledger.stop()
        url = self._server_url()
        join = "&" if "?" in url else "?"
        ledger_url = f"{url}{join}prefix=c{zlib.crc32(str(folder).encode()):x}_"
        self._ledger = patch.dict(os.environ, {"LAURELS_LEDGER_MAIN": ledger_url})
        self._ledger.start()
        if self._is_running():  # drop the tables only at exit, since boards are opened again
            atexit.register(drop, ledger_url)

    def _is_running(self) -> bool:
        """Return whether the tests use a server that was running before them."""
        return RUNNING[self.database.__name__.lower()] in os.environ

    def _server_url(self) -> str:
        kind = self.database
        running = os.environ.get(RUNNING[kind.__name__.lower()])
        if running is not None:
            return running
        if kind not in WithServer._databases:
            WithServer._databases[kind] = kind()
        return WithServer._databases[kind].url


class WithPostgres(WithServer):
    database = Postgres


class WithMariaDB(WithServer):
    database = MariaDB


class Routed:
    """Boards of a server in three stores: by their names on an index server, in a second folder, or
    in the folder of the server."""

    clock = None

    def __init__(self, folder: Path, clock: Clock) -> None:
        self._on_redis = OnRedis(folder, clock)
        placement = {"[a-d]*": self._on_redis.url, "[e-l]*": str(folder / "second")}
        self._served = Served(folder, clock, admin_key=ADMIN_KEY, placement=placement)

    @property
    def url(self) -> str:
        return self._served.url.replace("//", f"//{ADMIN_KEY}@")

    def close(self) -> None:
        self._served.close()
        self._on_redis.close()


class OnCluster:
    """Boards on a cluster that all tests of this process share, with each board on one node."""

    _cluster: Cluster | None = None

    def __init__(self, folder: Path, clock: Clock) -> None:
        if OnCluster._cluster is None:
            OnCluster._cluster = Cluster()
            atexit.register(OnCluster._cluster.close)
        self.clock = clock
        prefix = f"{zlib.crc32(str(folder).encode()):x}:"
        self.url = f"{OnCluster._cluster.url}?prefix={prefix}"
        self._small = small_heads()
        self._ledger = _ledger_in(folder)

    def close(self) -> None:
        self._small.stop()
        self._ledger.stop()


class Divided(OnCluster):
    """Boards on the same cluster. Each board is divided over all nodes even if its definition has
    one shard, except boards that cannot be divided."""

    def __init__(self, folder: Path, clock: Clock) -> None:
        super().__init__(folder, clock)
        self._divided = patch.object(laurels.Board, "rules", _divided(laurels.Board.rules))
        self._divided.start()

    def close(self) -> None:
        self._divided.stop()
        super().close()


def _divided(rules_of: Callable[[laurels.Board], Rules]) -> Callable[[laurels.Board], Rules]:
    def rules(board: laurels.Board) -> Rules:
        rules = rules_of(board)
        return replace(rules, shards=3) if rules.rank != "dense" else rules

    return rules


@dataclass(frozen=True)
class Implementation:
    """A kind of deployment. `run` starts one with a folder and a clock. `lasting`: its data remains
    after closing. `exclusive`: only one process may open it. `divided`: it divides boards into
    shards. `refreshes`: it has no event loop of its own, so only writes refresh windows.
    `archives`: it has an archive. `ledger`: the ledger that an archive on an index server needs.
    `divides_time`: it has several stores, each of which knows only the times of its own boards.
    `beginnings`: the first words of the names of boards, one for each store; only the first store
    may be an index server. `group`: implementations of one group share most of their code, so
    `make test` runs each case of a test on one of them."""

    name: str
    run: Callable[[Path, Clock], Place]
    lasting: bool
    exclusive: bool = False
    divided: bool = False
    refreshes: bool = True
    archives: bool = False
    ledger: str = ""
    divides_time: bool = False
    group: str = "local"
    beginnings: tuple[str, ...] = ("board",)

    def store_of(self, board: str) -> str:
        """Return the beginning of the names of the boards that are in the store of a board."""
        named = [each for each in self.beginnings if board.startswith(each)]
        return named[0] if named else self.beginnings[0]

    def ledger_of(self, board: str) -> str:
        """Return the ledger that the archive of a board needs, or an empty string."""
        return self.ledger if self.store_of(board) == self.beginnings[0] else ""


EMBEDDED = (
    Implementation(
        "memory",
        lambda _, clock: InProcess("memory:", clock),
        lasting=False,
        archives=True,
        group="memory",
    ),
    Implementation(
        "folder",
        lambda folder, clock: InProcess(str(folder), clock),
        lasting=True,
        exclusive=True,
        archives=True,
    ),
)
"""The implementations with boards in this process. They carry out operations in the order of the
calls."""
STORES = (
    *EMBEDDED,
    Implementation(
        "http",
        OverHttp,
        lasting=True,
        exclusive=True,
        refreshes=False,
        archives=True,
    ),
)
"""The implementations with a single offset, which counts the operations on all boards together."""
IMPLEMENTATIONS = (
    *STORES,
    Implementation("redis", OnRedis, lasting=True, archives=True, ledger="main", group="server"),
    Implementation(
        "routed",
        Routed,
        lasting=True,
        refreshes=False,
        archives=True,
        ledger="main",
        divides_time=True,
        group="server",
        beginnings=("board", "folder", "score"),
    ),
    Implementation(
        "cluster",
        OnCluster,
        lasting=True,
        archives=True,
        ledger="main",
        group="server",
    ),
    Implementation(
        "cluster-shards",
        Divided,
        lasting=True,
        divided=True,
        archives=True,
        ledger="main",
        group="server",
    ),
)
ARCHIVING = (
    *(each for each in IMPLEMENTATIONS if each.name not in ("routed", "cluster")),
    Implementation(
        "redis-postgres",
        WithPostgres,
        lasting=True,
        archives=True,
        ledger="main",
        group="server",
    ),
    Implementation(
        "redis-mariadb",
        WithMariaDB,
        lasting=True,
        archives=True,
        ledger="main",
        group="server",
    ),
)
"""The implementations that archive boards with the ledger `main`, and index servers with every kind
of ledger."""
LASTING = tuple(implementation for implementation in IMPLEMENTATIONS if implementation.lasting)


class Deployment:
    """A fresh deployment with a clock. Its boards are `lb`, which can be closed and opened again.
    If its data remains after closing, the files are in `folder`."""

    def __init__(self, implementation: Implementation, directory: Path, clock: Clock) -> None:
        self.folder = directory / "laurels-data"
        self.lasting = implementation.lasting
        self.exclusive = implementation.exclusive
        self.refreshes = implementation.refreshes
        self.archives = implementation.archives
        self.ledger = implementation.ledger
        self.divided = implementation.divided
        self.divides_time = implementation.divides_time
        self.clock = clock
        self._implementation = self.kind = implementation
        self._place = implementation.run(self.folder, clock)
        self.lb = self._opened()

    def reopen(self, meanwhile: Callable[[], object] = lambda: None) -> laurels.Leaderboards:
        """Close the deployment and open it again, as after a restart. Return its boards.
        `meanwhile` is called while it is closed."""
        self.close()
        meanwhile()
        self._place = self._implementation.run(self.folder, self.clock)
        self.lb = self._opened()
        return self.lb

    def open_beside(self) -> laurels.Leaderboards:
        """Open the same boards as another process would. They must not be exclusive."""
        return laurels.open(self._place.url, clock=self._place.clock)

    @asynccontextmanager
    async def opened_async(self) -> AsyncIterator[laurels.AsyncLeaderboards]:
        """Close `lb`, and open the same boards for an event loop, within a context."""
        async with await self.open_async() as lb:
            yield lb

    async def open_async(self) -> laurels.AsyncLeaderboards:
        """Close `lb`, and open the same boards for an event loop; the caller closes them."""
        self.lb.close()
        return await laurels.open_async(self._place.url, clock=self._place.clock)

    def close(self) -> None:
        self.lb.close()
        self._place.close()

    def _opened(self) -> laurels.Leaderboards:
        return laurels.open(self._place.url, clock=self._place.clock)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
