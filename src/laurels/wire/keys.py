"""What is stored of keys, and the stores: the protocol that all of them implement, and the one in
memory. `key_file` has the store in a folder, `key_server` the one on an index server."""

import hashlib
from collections.abc import Callable, Mapping
from typing import Literal, Protocol, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

Scope = Literal["read", "write", "admin"]


class Key(Struct, frozen=True, omit_defaults=True):
    """A key as it is stored, without its secret.

    `boards` are patterns, `rate` is requests a second (None: the server's). `id` is a random number
    that no other key ever has, also one of the same name. `issuer` is the id of the key that made
    it, "" for the operator. After a rotation the secret before is accepted until
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
    """A secret that tokens are signed with; `id` is a random number that a token names it by."""

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
        """Return these keys and another one."""
        return replace(self, keys=(*self.keys, key))

    def replacing(self, key: Key) -> "KeySet":
        """Return these keys with one in place of that of its name."""
        return replace(
            self, keys=tuple(key if each.name == key.name else each for each in self.keys)
        )

    def without(self, name: str) -> "KeySet":
        """Return these keys without the one of that name."""
        return replace(self, keys=tuple(each for each in self.keys if each.name != name))


Edit: TypeAlias = Callable[[KeySet], KeySet]
"""Returns what is to be stored in place of what is. It may be called again, after another process
has changed the keys; what it raises leaves them as they are."""


class KeyStore(Protocol):
    """Keeps keys for longer than a process lives. Every call raises StorageFailed, or what an index
    server refuses it by."""

    def read(self) -> KeySet:
        """Return what is stored."""

    def change(self, edit: Edit) -> KeySet:
        """Store what `edit` makes of what is stored, unless another process changed that meanwhile:
        then of what it is now. Return what is stored."""

    def needs_keys(self) -> bool:
        """Return whether the store has ever had a key: then it needs one for ever."""

    def set_needs_keys(self) -> None:
        """Record that the store needs keys from now on."""

    def last_used(self) -> Mapping[str, int]:
        """Return when keys were last used, by their ids, as far as that was stored."""

    def store_last_used(self, used_ms: Mapping[str, int]) -> None:
        """Store when keys were last used; those not named stay."""

    def forget_last_used(self, key_id: str) -> None:
        """Remove when a key was last used."""


class SharedKeyStore(KeyStore, Protocol):
    """A key store that other processes change, too; the coroutines are for its own loop."""

    async def load(self) -> tuple[str | None, KeySet]:
        """Return what is stored, and its version."""

    async def version(self) -> str | None:
        """Return what changes with every change of the keys; None while there never was one."""


class MemoryKeyStore:
    """Keys that end with the process: those of a store in memory."""

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
    """Return a key with an id; one of an older version gets an id that follows from its secret."""
    if key.id:
        return key
    return replace(key, id=hashlib.sha256(b"id:" + key.sha256.encode()).hexdigest()[:16])
