"""The databases that the bench starts, with their default settings for memory."""

from collections.abc import Sequence
from pathlib import Path

from tests.flows.databases import MariaDB, Postgres
from tests.redis.programs import REDIS, on_path

MORE = ("/usr/sbin", "/usr/local/sbin")


class LargePostgres(Postgres):
    """A PostgreSQL server with its default memory."""

    def command(self) -> Sequence[str]:
        return [*super().command(), "-c", "shared_buffers=128MB"]


class LargeMariaDB(MariaDB):
    """A MariaDB server with its default memory."""

    def command(self) -> Sequence[str]:
        memory = ("--innodb-buffer-pool-size=128M", "--innodb-log-file-size=96M")
        return [*super().command(), *memory]


def missing() -> list[str]:
    """Return a sentence for each server that is not installed."""
    lacking = []
    if not list(Path("/usr/lib/postgresql").glob("*/bin/initdb")) and on_path("initdb") is None:
        lacking.append("PostgreSQL is not installed: apt-get install -y postgresql")
    for program, package in (("mariadbd", "mariadb-server"), ("nats-server", "nats-server")):
        if on_path(program) is None and not any(Path(each, program).exists() for each in MORE):
            lacking.append(f"{program} is not installed: apt-get install -y {package}")
    if on_path(REDIS.program) is None:
        lacking.append("redis-server is not installed: apt-get install -y redis-server")
    return lacking
