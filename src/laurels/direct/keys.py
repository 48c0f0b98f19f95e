"""The keys to a service over an index server: on that server, so that all processes share them."""

from typing import Protocol


class ServerKeys(Protocol):
    """Keys by name, as bytes, and the secret that tokens are signed with."""

    async def load(self) -> tuple[str | None, dict[str, bytes]]:
        """The secret, None where there is none yet, and all keys."""

    async def add(self, name: str, key: bytes) -> bool:
        """Keeps a key; False where there is one of that name."""

    async def remove(self, name: str) -> bool:
        """Takes a key away; whether it was there."""

    async def settle(self, secret: str) -> str:
        """Keeps a secret where there is none yet; the one that is kept."""
