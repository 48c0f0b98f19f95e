"""The protocol of storing a service's keys on the index server, where all processes share them."""

from collections.abc import Mapping, Sequence
from typing import Protocol

from msgspec import Struct


class StoredKeys(Struct, frozen=True):
    """Everything that is stored about keys, read in one step; `version` changes with every change
    and is None before the first."""

    version: str | None
    signing: bytes | None
    keys: dict[str, bytes]


class ServerKeys(Protocol):
    """Keys by name, as bytes, and the secrets that tokens are signed with."""

    async def load(self) -> StoredKeys:
        """Return everything that is stored."""

    async def version(self) -> str | None:
        """Return the stored version."""

    async def replace(
        self,
        old_version: str | None,
        new_version: str,
        signing: bytes,
        put: Mapping[str, bytes],
        remove: Sequence[str],
    ) -> bool:
        """Store and remove keys in one step if the version still is `old_version`, and record that
        the boards need keys. Return whether that was done."""

    async def needs_keys(self) -> bool:
        """Return whether the boards ever had a key."""

    async def last_used(self) -> Mapping[str, int]:
        """Return when keys were last used, by their ids."""

    async def store_last_used(self, used_ms: Mapping[str, int]) -> None:
        """Store when keys were last used; the times of other keys stay."""

    async def forget_last_used(self, key_id: str) -> None:
        """Remove the time when a key was last used."""
