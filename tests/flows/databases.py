"""SQL databases and a NATS server for tests, each on a free port with a folder of its own.

The installed programs are started. If a program is missing, the test is skipped with the line that
installs it; with CI=true the test fails instead. The variables in `RUNNING` name databases of
running servers, for the tests that only need a database and do not stop its server.
"""

from __future__ import annotations

import atexit
import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

import psycopg
import pymysql

from tests.redis.programs import skip_or_fail
from tests.redis.servers import free_port, has_stopped, until

RUNNING = {"postgres": "LAURELS_TEST_POSTGRES", "mariadb": "LAURELS_TEST_MARIADB"}
"""For each kind of database, the variable with the URL of one that already runs."""

_POSTGRES = "/usr/lib/postgresql/*/bin"


def need(name: str, package: str, *more: str) -> str:
    """Return the path of a program. Besides PATH, search the folders in which Debian installs
    servers."""
    places = [*os.environ.get("PATH", "").split(os.pathsep), "/usr/sbin", "/usr/local/sbin", *more]
    program = shutil.which(name, path=os.pathsep.join(places))
    if program is None:
        skip_or_fail(f"{name} is not installed: apt-get install -y {package}")
    return program


def _is_running(pid: int) -> bool:
    """Return whether a process is still running. A process that has ended, but whose parent has not
    waited for it, is not running."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state != "Z"


class Program(ABC):
    """A server with a folder of its own. It keeps its port when it is killed and started again."""

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="laurels-db-", ignore_cleanup_errors=True)
        self.folder = Path(self._folder.name)
        self._child: subprocess.Popen[bytes] | None = None
        self.port = free_port()
        atexit.register(self.close)
        try:
            self.prepare()
            self.start()
        except BaseException:
            self.close()
            raise

    @abstractmethod
    def prepare(self) -> None:
        """Create what the server needs before its first start."""

    @abstractmethod
    def command(self) -> Sequence[str]:
        """Return the command that starts the server."""

    def user(self) -> str | None:
        """Return the user for the server if the tests run as root. None means that the server runs
        as root, too."""
        return None

    def start(self) -> None:
        with (self.folder / "server.log").open("ab") as log:
            self._child = subprocess.Popen(
                self.command(), stdout=log, stderr=log, cwd=self.folder, user=self.user()
            )
        until(self._answers, f"{self.command()[0]} answers on port {self.port}")

    def kill(self) -> None:
        """End all processes of the server at once, as a power failure does. Wait until they have
        ended, because PostgreSQL does not start again while a process uses its shared memory."""
        children = self._pids()[1:]
        self._end(signal.SIGKILL)
        for pid in children:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        until(lambda: not any(map(_is_running, children)), "the killed server has no process left")

    def pause(self) -> None:
        """Stop the processes of the server, so that it does not answer but keeps its connections
        open. Wait until they have stopped, because a thread may answer after the signal is sent."""
        pids = self._pids()
        for pid in pids:
            os.kill(pid, signal.SIGSTOP)
        until(lambda: all(map(has_stopped, pids)), "all threads of the server have stopped")

    def resume(self) -> None:
        """Let the stopped processes continue."""
        for pid in self._pids():
            os.kill(pid, signal.SIGCONT)

    def _pids(self) -> list[int]:
        assert self._child is not None
        pid = self._child.pid
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        return [pid, *map(int, children)]

    def close(self) -> None:
        self._end(signal.SIGTERM)
        self._folder.cleanup()

    def _end(self, by: signal.Signals) -> None:
        child, self._child = self._child, None
        if child is None:
            return
        child.send_signal(by)
        try:
            child.wait(60)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()

    def run(self, *command: str) -> None:
        """Run a program until it ends, as the user of the server."""
        done = subprocess.run(
            command, cwd=self.folder, user=self.user(), capture_output=True, check=False
        )
        assert done.returncode == 0, (done.stdout + done.stderr).decode()[-2_000:]

    def _own(self, folder: Path) -> None:
        """Give a folder to the user of the server."""
        user = self.user()
        if user is not None:
            self.folder.chmod(0o755)
            os.chown(folder, pwd.getpwnam(user).pw_uid, -1)

    def _answers(self) -> bool:
        assert self._child is not None
        ended = self._child.poll()
        assert ended is None, (self.folder / "server.log").read_text()[-2_000:]
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=5):
                return self.is_ready()
        except OSError:
            return False

    def is_ready(self) -> bool:
        return True

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def _is_user(name: str) -> bool:
    try:
        pwd.getpwnam(name)
    except KeyError:
        return False
    return True


def _as_root(name: str) -> str | None:
    """If the tests run as root, return the user for a server that refuses to run as root; otherwise
    None."""
    if os.geteuid() != 0:
        return None
    return name if _is_user(name) else "nobody"


class Postgres(Program):
    """PostgreSQL with an empty database `test`."""

    def prepare(self) -> None:
        folders = sorted(str(each) for each in Path("/").glob(_POSTGRES[1:]))
        self._initdb = need("initdb", "postgresql", *folders)
        self._postgres = need("postgres", "postgresql", *folders[-1:])
        self._data = self.folder / "data"
        self._data.mkdir()
        self._own(self._data)
        self.run(
            *(self._initdb, "-D", str(self._data), "-U", "test", "-A", "trust", "-E", "UTF8"),
            *("--locale=C", "--no-sync"),
        )

    def user(self) -> str | None:
        return _as_root("postgres")

    def command(self) -> Sequence[str]:
        return [
            *(self._postgres, "-D", str(self._data), "-p", str(self.port), "-k", ""),
            *("-c", "listen_addresses=127.0.0.1", "-c", "max_connections=20"),
            *("-c", "shared_buffers=16MB"),
        ]

    def is_ready(self) -> bool:
        try:
            with psycopg.connect(self.url.removesuffix("test") + "postgres", autocommit=True) as to:
                if not to.execute("SELECT 1 FROM pg_database WHERE datname = 'test'").fetchall():
                    to.execute("CREATE DATABASE test")
        except psycopg.OperationalError:
            return False
        return True

    @property
    def url(self) -> str:
        return f"postgresql://test@127.0.0.1:{self.port}/test"


class MariaDB(Program):
    """MariaDB with an empty database `test`."""

    def prepare(self) -> None:
        install = need("mariadb-install-db", "mariadb-server")
        self._server = need("mariadbd", "mariadb-server")
        self._data = self.folder / "data"
        self._own(self.folder)
        try:
            self._install(install)
        except AssertionError as error:
            if "Segmentation fault" not in str(error):
                raise
            # In rare cases, MariaDB 10.11 crashes while it creates the tables. Then try once more.
            shutil.rmtree(self._data)
            self._install(install)

    def _install(self, program: str) -> None:
        """Create the system tables in an empty folder."""
        self._data.mkdir()
        self._own(self._data)
        self.run(
            *(program, "--no-defaults", f"--datadir={self._data}", "--skip-test-db"),
            *("--auth-root-authentication-method=normal", "--innodb-log-file-size=8M"),
        )

    def user(self) -> str | None:
        return _as_root("mysql")

    def command(self) -> Sequence[str]:
        return [
            *(self._server, "--no-defaults", f"--datadir={self._data}", f"--port={self.port}"),
            *("--bind-address=127.0.0.1", f"--socket={self.folder}/s", "--skip-name-resolve"),
            *("--innodb-buffer-pool-size=32M", "--innodb-log-file-size=8M"),
            *(f"--pid-file={self.folder}/pid", "--performance-schema=OFF"),
        ]

    def is_ready(self) -> bool:
        try:
            to = pymysql.connect(host="127.0.0.1", port=self.port, user="root")
        except pymysql.err.OperationalError:
            return False
        with to:
            to.cursor().execute("CREATE DATABASE IF NOT EXISTS test")
        return True

    @property
    def url(self) -> str:
        return f"mysql://root@127.0.0.1:{self.port}/test"


class Nats(Program):
    """A NATS server with JetStream."""

    def prepare(self) -> None:
        self._server = need("nats-server", "nats-server")

    def command(self) -> Sequence[str]:
        store = str(self.folder / "store")
        return [self._server, "-a", "127.0.0.1", "-p", str(self.port), "-js", "-sd", store]

    @property
    def url(self) -> str:
        return f"nats://127.0.0.1:{self.port}"
