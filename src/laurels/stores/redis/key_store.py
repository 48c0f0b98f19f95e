"""The keys on an index server, which all processes that serve it share."""

from collections.abc import Callable, Coroutine, Mapping
from typing import Any

import msgspec

from laurels.errors.service import KeysBusy
from laurels.wire.keys import Edit, Key, KeySet, SigningSecret, with_id

from .keys import ServerKeys, StoredKeys

_ATTEMPTS = 20


class ServerKeyStore:
    """Implements `KeyStore` for threads beside the loop of the connection; `run` waits for a
    coroutine, `new_version` returns a text that it never returned before. The coroutines are for
    that loop itself."""

    def __init__(
        self,
        keys: ServerKeys,
        run: Callable[[Coroutine[Any, Any, Any]], Any],
        new_version: Callable[[], str],
    ) -> None:
        self._keys = keys
        self._run = run
        self._new_version = new_version

    def read(self) -> KeySet:
        found: tuple[str | None, KeySet] = self._run(self.load())
        return found[1]

    async def load(self) -> tuple[str | None, KeySet]:
        """Return what is stored, and its version."""
        stored = await self._keys.load()
        return stored.version, _key_set(stored)

    async def version(self) -> str | None:
        """Return what changes with every change of the keys; None while there never was one."""
        return await self._keys.version()

    def change(self, edit: Edit) -> KeySet:
        changed: KeySet = self._run(self._change(edit))
        return changed

    async def _change(self, edit: Edit) -> KeySet:
        for _ in range(_ATTEMPTS):
            stored = await self._keys.load()
            before = _key_set(stored)
            after = edit(before)
            old = {key.name: key for key in before.keys}
            new = {key.name: key for key in after.keys}
            if await self._keys.replace(
                stored.version,
                self._new_version(),
                msgspec.json.encode(after.signing),
                {
                    name: msgspec.json.encode(key)
                    for name, key in new.items()
                    if old.get(name) != key
                },
                [name for name in old if name not in new],
            ):
                return after
        raise KeysBusy(f"other processes changed the keys {_ATTEMPTS} times in a row")

    def needs_keys(self) -> bool:
        needed: bool = self._run(self._keys.needs_keys())
        return needed

    def set_needs_keys(self) -> None:
        """Do nothing: it is recorded with the first change, in the same step."""

    def last_used(self) -> Mapping[str, int]:
        used: Mapping[str, int] = self._run(self._keys.last_used())
        return used

    def store_last_used(self, used_ms: Mapping[str, int]) -> None:
        self._run(self._keys.store_last_used(used_ms))

    def forget_last_used(self, key_id: str) -> None:
        self._run(self._keys.forget_last_used(key_id))


def _key_set(stored: StoredKeys) -> KeySet:
    keys = [key for encoded in stored.keys.values() if (key := _key(encoded)) is not None]
    return KeySet(tuple(map(with_id, keys)), _signing(stored.signing))


def _key(encoded: bytes) -> Key | None:
    """Return a stored key; None for one that this version cannot read, which is then refused."""
    try:
        return msgspec.json.decode(encoded, type=Key)
    except msgspec.MsgspecError:
        return None


def _signing(encoded: bytes | None) -> tuple[SigningSecret, ...]:
    if encoded is None:
        return ()
    try:
        return msgspec.json.decode(encoded, type=tuple[SigningSecret, ...])
    except msgspec.MsgspecError:
        return ()
