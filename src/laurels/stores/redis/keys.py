"""The protocol for storing a service's keys on an index server, where all processes share them."""

from collections.abc import Mapping, Sequence
from typing import Protocol

from msgspec import Struct


class StoredKeys(Struct, frozen=True):
    """The stored keys and signing secrets, read in one step. `version` changes with every change of
    the keys or secrets. It is None if none were ever stored."""

    version: str | None
    signing: bytes | None
    keys: dict[str, bytes]


class ServerKeys(Protocol):
    """Stores keys by name, as bytes, and the secrets for signing tokens."""

    async def load(self) -> StoredKeys:
        """Return the stored keys and secrets."""

    async def version(self) -> str | None:
        """Return the version of the stored keys; None if none were ever stored."""

    async def replace(
        self,
        old_version: str | None,
        new_version: str,
        signing: bytes,
        put: Mapping[str, bytes],
        remove: Sequence[str],
    ) -> bool:
        """Store and remove keys in one step, and record that the boards need keys. If the stored
        version is not `old_version`, do nothing and return False."""

    async def needs_keys(self) -> bool:
        """Return whether any key was ever stored."""

    async def last_used(self) -> Mapping[str, int]:
        """Return the time of each key's last use in milliseconds, by the id of the key."""

    async def store_last_used(self, used_ms: Mapping[str, int]) -> None:
        """Store the times of last use of some keys. The times of other keys stay."""

    async def forget_last_used(self, key_id: str) -> None:
        """Remove the time of a key's last use."""
