"""The stored form of keys, the protocol of key stores, and the key store in memory.

`stores/local/files/key_file.py` has the key store in a folder, `stores/redis/key_store.py` the key
store on an index server.
"""

import hashlib
from collections.abc import Callable, Mapping
from typing import Literal, Protocol, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

Scope = Literal["read", "write", "admin"]


class Key(Struct, frozen=True, omit_defaults=True):
    """A key as it is stored, without its secret.

    `boards` are patterns of board names. `rate` is in requests per second; None stands for the
    server's default. `id` is a random number; a key that is created again under the same name has
    another id. `issuer` is the id of the key that created this one, "" if the operator created it.
    After a rotation, the previous secret is accepted until `previous_until_ms`.
    """

    name: str
    scope: Scope
    boards: tuple[str, ...]
    created_ms: int
    sha256: str
    rate: float | None = None
    id: str = ""
    issuer: str = ""
    expires_ms: int | None = None
    previous_sha256: str | None = None
    previous_until_ms: int | None = None


class SigningSecret(Struct, frozen=True):
    """A secret for signing tokens. A token refers to it by `id`, a random number."""

    id: str
    secret: str
    created_ms: int


class KeySet(Struct, frozen=True):
    """All keys, and at most two signing secrets, the newest first."""

    keys: tuple[Key, ...] = ()
    signing: tuple[SigningSecret, ...] = ()

    def named(self, name: str) -> Key | None:
        """Return the key of that name, None if there is none."""
        return next((key for key in self.keys if key.name == name), None)

    def adding(self, key: Key) -> "KeySet":
        """Return a copy of the set with a key added."""
        return replace(self, keys=(*self.keys, key))

    def replacing(self, key: Key) -> "KeySet":
        """Return a copy of the set in which `key` replaces the key of the same name."""
        return replace(
            self, keys=tuple(key if each.name == key.name else each for each in self.keys)
        )

    def without(self, name: str) -> "KeySet":
        """Return a copy of the set without the key of that name."""
        return replace(self, keys=tuple(each for each in self.keys if each.name != name))


Edit: TypeAlias = Callable[[KeySet], KeySet]
"""A function that gets the stored keys and returns the keys that replace them. It is called again
if another process has changed the keys meanwhile. If it raises an error, nothing is changed."""


class KeyStore(Protocol):
    """Stores keys across restarts. Every method may raise StorageFailed, or the errors of an index
    server."""

    def read(self) -> KeySet:
        """Return the stored keys."""

    def change(self, edit: Edit) -> KeySet:
        """Replace the stored keys by the result of `edit`, and return the result."""

    def needs_keys(self) -> bool:
        """Return whether it is recorded that the store needs keys. This is recorded before the
        first key is stored, and never undone."""

    def set_needs_keys(self) -> None:
        """Record that the store needs keys from now on."""

    def last_used(self) -> Mapping[str, int]:
        """Return the stored time of each key's last use in milliseconds, by the key's id."""

    def store_last_used(self, used_ms: Mapping[str, int]) -> None:
        """Store the times of last use of some keys, by id; the times of other keys stay."""

    def forget_last_used(self, key_id: str) -> None:
        """Remove the time of a key's last use."""


class SharedKeyStore(KeyStore, Protocol):
    """A key store that several processes share. Its coroutines run on the event loop of the
    store."""

    async def load(self) -> tuple[str | None, KeySet]:
        """Return the stored keys with their version."""

    async def version(self) -> str | None:
        """Return a version that changes whenever the keys change; None if no keys were ever
        stored."""


class MemoryKeyStore:
    """The key store in memory: its keys are lost when the process ends."""

    def __init__(self) -> None:
        self._stored = KeySet()
        self._needs_keys = False
        self._used_ms: dict[str, int] = {}

    def read(self) -> KeySet:
        return self._stored

    def change(self, edit: Edit) -> KeySet:
        self._stored = edit(self._stored)
        return self._stored

    def needs_keys(self) -> bool:
        return self._needs_keys

    def set_needs_keys(self) -> None:
        self._needs_keys = True

    def last_used(self) -> Mapping[str, int]:
        return self._used_ms

    def store_last_used(self, used_ms: Mapping[str, int]) -> None:
        self._used_ms.update(used_ms)

    def forget_last_used(self, key_id: str) -> None:
        self._used_ms.pop(key_id, None)


def with_id(key: Key) -> Key:
    """Return a key with an id; a key that an older version has stored without an id gets one
    derived from its secret."""
    if key.id:
        return key
    return replace(key, id=hashlib.sha256(b"id:" + key.sha256.encode()).hexdigest()[:16])
