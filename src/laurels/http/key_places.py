"""Where keys are kept: in a file of the folder, or on the index server that several processes
share."""

import os
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, Literal, Protocol

import msgspec
from msgspec import Struct

from laurels.direct.keys import ServerKeys
from laurels.errors import FormatTooNew, StorageFailed

from .refusals import InvalidKey

Scope = Literal["read", "write", "admin"]
KEYS_FILE = "keys.json"
FORMAT = 1


class Key(Struct, frozen=True):
    """A key as it is kept: `boards` are patterns (`gifts`, `room-*`), `rate` requests a second, by
    default the server's."""

    name: str
    scope: Scope
    boards: tuple[str, ...]
    created_ms: int
    sha256: str
    rate: float | None = None


class Ring(Struct, frozen=True):
    """All keys, and the secret that tokens are signed with, None where there is none yet."""

    secret: str | None
    keys: list[Key]


class KeyPlace(Protocol):
    """Keeps keys for longer than a process lives. Every call raises StorageFailed or what the
    server refuses it by."""

    def read(self) -> Ring:
        """What is kept."""

    def add(self, key: Key, secret: str) -> bool:
        """Keeps a key; False where there is one of its name."""

    def remove(self, name: str) -> bool:
        """Takes a key away; whether it was there."""

    def settle(self, secret: str) -> str:
        """The secret to sign tokens with, known to all who share the keys: this one, unless there
        is one."""


class Nowhere:
    """Keys that are gone with the process: those of a store in memory."""

    def __init__(self) -> None:
        self._keys: dict[str, Key] = {}

    def read(self) -> Ring:
        return Ring(None, list(self._keys.values()))

    def add(self, key: Key, secret: str) -> bool:
        return self._keys.setdefault(key.name, key) is key

    def remove(self, name: str) -> bool:
        return self._keys.pop(name, None) is not None

    def settle(self, secret: str) -> str:
        return secret


class _File(Struct, frozen=True):
    format: int
    secret: str
    keys: list[Key]


class InFolder:
    """Keys in a file that only its owner may read; the secret is kept with the first key."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / KEYS_FILE

    def read(self) -> Ring:
        if not self._path.exists():
            return Ring(None, [])
        try:
            kept = msgspec.json.decode(self._path.read_bytes(), type=_File)
        except OSError as error:
            raise StorageFailed(f"{self._path} could not be read ({error})") from error
        except msgspec.MsgspecError as error:
            raise InvalidKey(f"{self._path} is no file of keys ({error})") from error
        if kept.format > FORMAT:
            raise FormatTooNew(f"{self._path} is in format {kept.format}, not {FORMAT}")
        return Ring(kept.secret, kept.keys)

    def add(self, key: Key, secret: str) -> bool:
        kept = self.read()
        if any(other.name == key.name for other in kept.keys):
            return False
        self._write(kept.secret or secret, [*kept.keys, key])
        return True

    def remove(self, name: str) -> bool:
        kept = self.read()
        others = [key for key in kept.keys if key.name != name]
        if kept.secret is None or len(others) == len(kept.keys):
            return False
        self._write(kept.secret, others)
        return True

    def settle(self, secret: str) -> str:
        return secret

    def _write(self, secret: str, keys: list[Key]) -> None:
        """Keeps the keys: on the disk before anybody is told."""
        content = msgspec.json.format(msgspec.json.encode(_File(FORMAT, secret, keys)))
        try:
            _replace(self._path, content)
        except OSError as error:
            raise StorageFailed(f"{self._path} could not be written ({error})") from error


class OnServer:
    """Keys on an index server, asked from a thread beside the loop: `run` waits for a coroutine."""

    def __init__(self, keys: ServerKeys, run: Callable[[Coroutine[Any, Any, Any]], Any]) -> None:
        self._keys = keys
        self._run = run

    def read(self) -> Ring:
        ring: Ring = self._run(self.read_async())
        return ring

    async def read_async(self) -> Ring:
        """The same on the loop."""
        secret, found = await self._keys.load()
        try:
            return Ring(secret, [msgspec.json.decode(key, type=Key) for key in found.values()])
        except msgspec.MsgspecError as error:
            raise InvalidKey(f"a key on the index server is none ({error})") from error

    def add(self, key: Key, secret: str) -> bool:
        added: bool = self._run(self._keys.add(key.name, msgspec.json.encode(key)))
        return added

    def remove(self, name: str) -> bool:
        removed: bool = self._run(self._keys.remove(name))
        return removed

    def settle(self, secret: str) -> str:
        settled: str = self._run(self._keys.settle(secret))
        return settled


def _replace(path: Path, content: bytes) -> None:
    """Puts content in the place of a file that only its owner may read, on the disk."""
    written = path.with_name(f"{path.name}.unfinished")
    file = os.open(written, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    try:
        os.write(file, content)
        os.fsync(file)
    finally:
        os.close(file)
    written.replace(path)
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
