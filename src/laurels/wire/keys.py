"""The stored form of keys, the protocol of key stores, and the key store in memory. `key_file` has
the store in a folder, `key_server` the one on an index server."""

import hashlib
from collections.abc import Callable, Mapping
from typing import Literal, Protocol, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

Scope = Literal["read", "write", "admin"]


class Key(Struct, frozen=True, omit_defaults=True):
    """A key as it is stored, without its secret.

    `boards` are patterns, `rate` is in requests a second (None for the server's). `id` is a random
    number that no other key ever has, not even one of the same name. `issuer` is the id of the key
    that made it, "" for the operator. After a rotation, the previous secret is accepted until
    `previous_until_ms`.
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
    """A secret for signing tokens; `id` is the random number by which a token refers to it."""

    id: str
    secret: str
    created_ms: int


class KeySet(Struct, frozen=True):
    """All keys, and at most two signing secrets, the newest first."""

    keys: tuple[Key, ...] = ()
    signing: tuple[SigningSecret, ...] = ()

    def named(self, name: str) -> Key | None:
        """Return the key of that name."""
        return next((key for key in self.keys if key.name == name), None)

    def adding(self, key: Key) -> "KeySet":
        """Return these keys with another one added."""
        return replace(self, keys=(*self.keys, key))

    def replacing(self, key: Key) -> "KeySet":
        """Return these keys with one replaced by a key of the same name."""
        return replace(
            self, keys=tuple(key if each.name == key.name else each for each in self.keys)
        )

    def without(self, name: str) -> "KeySet":
        """Return these keys without the one of that name."""
        return replace(self, keys=tuple(each for each in self.keys if each.name != name))


Edit: TypeAlias = Callable[[KeySet], KeySet]
"""A function from the stored keys to those to store instead. It is called again if another process
has changed the keys meanwhile; if it raises, they stay as they are."""


class KeyStore(Protocol):
    """Keeps keys beyond the life of a process. Every call raises StorageFailed, or the errors of an
    index server."""

    def read(self) -> KeySet:
        """Return the stored keys."""

    def change(self, edit: Edit) -> KeySet:
        """Store the result of `edit` on the stored keys, and return it. If another process changes
        them meanwhile, `edit` is called again."""

    def needs_keys(self) -> bool:
        """Return whether the store has ever had a key; from then on it always needs one."""

    def set_needs_keys(self) -> None:
        """Record that the store needs keys from now on."""

    def last_used(self) -> Mapping[str, int]:
        """Return when keys were last used, by their ids, as far as it has been stored."""

    def store_last_used(self, used_ms: Mapping[str, int]) -> None:
        """Store when keys were last used; other keys are unaffected."""

    def forget_last_used(self, key_id: str) -> None:
        """Remove the time of a key's last use."""


class SharedKeyStore(KeyStore, Protocol):
    """A key store that other processes change, too. Its coroutines run on its own loop."""

    async def load(self) -> tuple[str | None, KeySet]:
        """Return the stored keys with their version."""

    async def version(self) -> str | None:
        """Return a version that changes with every change of the keys, or None if they were never
        changed."""


class MemoryKeyStore:
    """The key store in memory, whose keys end with the process."""

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
    """Return a key with an id; a key of an older version gets an id derived from its secret."""
    if key.id:
        return key
    return replace(key, id=hashlib.sha256(b"id:" + key.sha256.encode()).hexdigest()[:16])
