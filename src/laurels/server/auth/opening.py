"""Decide, when a server starts, who may use it: the holders of existing keys, the holder of a first
key, or everybody on this machine."""

import ipaddress

from laurels import config
from laurels.errors.service import InvalidSettings, KeysNeeded, NotLoopback
from laurels.model.validation import safe_repr
from laurels.server.process.settings import Settings
from laurels.wire.keys import KeyStore

from .access import Keys


def ensure_possible(settings: Settings, admin_key: str | None) -> None:
    """If `open` is set but the other settings do not allow serving without keys, raise
    InvalidSettings, NotLoopback or KeysNeeded."""
    if not settings.open:
        return
    for url in settings.stores:
        if config.is_direct(url):
            raise InvalidSettings(
                f"open is true, but {safe_repr(config.without_login(url))} is an "
                "index server, which other machines can reach: expected a folder or memory:"
            )
    if not _is_loopback(settings.host):
        raise NotLoopback(
            f"expected a loopback host for a server without keys, got {settings.host}"
        )
    for name in ("cors_origins", "trusted_proxy"):
        if getattr(settings, name):
            raise InvalidSettings(f"open is true, but {name} is set: that setting needs keys")
    if admin_key:
        raise KeysNeeded("open is true, but LAURELS_ADMIN_KEY is set")


def settle_keys(settings: Settings, keys: Keys, store: KeyStore) -> str | None:
    """Let everybody on this machine use the service if `open` is set. Otherwise, if the store never
    had a key, make a first key and return its secret. In all other cases return None. This function
    blocks. Raises KeysNeeded if `open` is set, but keys were made for the store."""
    if not settings.open:
        return keys.ensure_first_key()
    if keys.can_anyone_enter or store.needs_keys():
        raise KeysNeeded("open is true, but keys were made for this store")
    keys.is_open = True
    return None


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
