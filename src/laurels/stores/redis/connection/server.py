"""The properties of a server as reported by INFO: whether it is usable, and warnings about it."""

import re
from collections.abc import Iterator
from typing import Any

from msgspec import Struct

from laurels.errors.index_server import IndexTooOld

MIN_VERSION = (6, 2)


class ServerInfo(Struct, frozen=True):
    """The fields of INFO that laurels uses."""

    name: str
    """The name and version, such as `Redis 7.2.4` or `Valkey 8.0.1`."""
    version: tuple[int, ...]
    valkey: bool
    cluster: bool
    memory_limit: int
    memory_policy: str
    append_only: bool | None
    """Whether the append-only file is on; None if the server does not report it."""

    def ensure_recent(self, place: str) -> None:
        """Raise IndexTooOld for Redis before 6.2. Every version of Valkey is recent enough."""
        if not self.valkey and self.version < MIN_VERSION:
            raise IndexTooOld(f"{place} runs {self.name}, and Redis 6.2 or Valkey is needed")

    def warnings(self, place: str, sync_policy: str | None = None) -> Iterator[str]:
        """Yield a sentence for each way in which the server may lose counted events. `sync_policy`
        is the server's `appendfsync` setting, if known."""
        if self.memory_limit and self.memory_policy != "noeviction":
            yield (
                f"{place} drops keys when its memory is full (maxmemory-policy "
                f"{self.memory_policy}): scores would be lost; set maxmemory-policy noeviction"
            )
        if self.append_only is False:
            yield (
                f"{place} has no append-only file: when it ends, events counted since its last "
                "snapshot are lost; set appendonly yes"
            )
        elif sync_policy == "no":
            yield (
                f"{place} lets the operating system decide when to write its append-only file to "
                "the disk (appendfsync no): a power cut may lose the events of the last half "
                "minute or more; set appendfsync everysec or always"
            )


def server_info(text: bytes) -> ServerInfo:
    """Parse the sections server, memory and persistence of INFO."""
    lines = (line.partition(":") for line in text.decode(errors="replace").splitlines())
    fields = {name: value.strip() for name, _, value in lines}
    valkey = "valkey_version" in fields
    version = fields.get("valkey_version" if valkey else "redis_version", "")
    appending = fields.get("aof_enabled")
    return ServerInfo(
        name=f"{'Valkey' if valkey else 'Redis'} {version or 'of an unknown version'}",
        version=_version(version),
        valkey=valkey,
        cluster=fields.get("redis_mode", fields.get("server_mode")) == "cluster",
        memory_limit=int(fields.get("maxmemory", 0)),
        memory_policy=fields.get("maxmemory_policy", "noeviction"),
        append_only=None if appending is None else appending == "1",
    )


def sync_policy(answer: Any) -> str:
    """Return the value from the answer to a CONFIG GET of one parameter. The answer is a mapping,
    or a list of a name and a value."""
    values = list(answer.values()) if isinstance(answer, dict) else list(answer)[1::2]
    return bytes(values[0]).decode() if values else ""


def _version(text: str) -> tuple[int, ...]:
    """Return the numbers at the beginning of a version: (6, 2, 0) for 6.2.0-rc1, () if there are
    none."""
    match = re.match(r"\d+(?:\.\d+)*", text)
    return tuple(map(int, match[0].split("."))) if match else ()
