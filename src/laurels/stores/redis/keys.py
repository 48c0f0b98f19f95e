"""The keys to a service over an index server: on that server, so that all processes share them."""

from collections.abc import Mapping, Sequence
from typing import Protocol

from msgspec import Struct


class StoredKeys(Struct, frozen=True):
    """All that is stored of keys, as of one moment; `version` changes with every change and is None
    before the first."""

    version: str | None
    signing: bytes | None
    keys: dict[str, bytes]


class ServerKeys(Protocol):
    """Keys by name, as bytes, and the secrets that tokens are signed with."""

    async def load(self) -> StoredKeys:
        """Return all that is stored."""

    async def version(self) -> str | None:
        """Return the version that is stored."""

    async def replace(
        self,
        old_version: str | None,
        new_version: str,
        signing: bytes,
        put: Mapping[str, bytes],
        remove: Sequence[str],
    ) -> bool:
        """Store and remove keys in one step, if the version still is `old_version`. Record that the
        boards need keys. Return whether it did."""

    async def needs_keys(self) -> bool:
        """Return whether the boards ever had a key."""

    async def last_used(self) -> Mapping[str, int]:
        """Return when keys were last used, by their ids."""

    async def store_last_used(self, used_ms: Mapping[str, int]) -> None:
        """Store when keys were last used; those not named stay."""

    async def forget_last_used(self, key_id: str) -> None:
        """Remove when a key was last used."""
