"""The keys of a service, stored on an index server and shared by all processes of the service."""

from collections.abc import Callable, Coroutine, Mapping
from typing import Any

import msgspec

from laurels.errors.service import KeysBusy
from laurels.wire.keys import Edit, Key, KeySet, SigningSecret, with_id

from .keys import ServerKeys, StoredKeys

_ATTEMPTS = 20


class ServerKeyStore:
    """Implementation of `KeyStore`. The coroutines run on the connection's loop; the synchronous
    methods are for all other threads. `run` runs a coroutine on the loop and waits for it;
    `new_version` returns a different text each time."""

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
        loaded: tuple[str | None, KeySet] = self._run(self.load())
        return loaded[1]

    async def load(self) -> tuple[str | None, KeySet]:
        """Return the version of the stored keys (None if none were ever stored), and the keys."""
        stored = await self._keys.load()
        return stored.version, _key_set(stored)

    async def version(self) -> str | None:
        """Return a version that changes whenever the keys change. Return None if no keys were ever
        stored."""
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
        """Do nothing, since the first call of `ServerKeys.replace` records that the boards need
        keys."""

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
    """Decode a stored key. Return None if this version of laurels cannot read the key; such a key
    is not accepted."""
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
