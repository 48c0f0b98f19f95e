"""Finding the caller that presents a key or a token; see `access.py`."""

import hashlib
import hmac
from collections.abc import Callable
from contextlib import suppress
from threading import Lock

from laurels.errors import LaurelsError
from laurels.errors.service import InvalidKey, KeysUnavailable, Unauthorized
from laurels.model.board_patterns import covers_all
from laurels.wire.keys import KeySet, KeyStore, SigningSecret

from .caller import ANYBODY, LEVEL, Bucket, Caller, caller_of
from .tokens import TOKEN_PREFIX, Claims, verify

MIN_ADMIN_KEY = 20
_REMEMBERED = 10_000


class Callers:
    """The callers of one deployment, by the keys as last read from their store.

    If `is_open` is true, callers without a key may do everything. `default_rate` is the rate of
    keys that have no rate of their own; 0 means no limit.
    """

    def __init__(
        self,
        store: KeyStore,
        admin_key: str | None,
        random: Callable[[int], bytes],
        now_ms: Callable[[], int],
        *,
        open: bool = False,
        default_rate: float = 0.0,
    ) -> None:
        self._store = store
        self._random = random
        self.now_ms = now_ms
        self._default_rate = default_rate
        self._admin = _administrator(admin_key)
        self._stored = KeySet()
        self._by_sha256: dict[str, Caller] = {}
        self._by_id: dict[str, Caller] = {}
        self._signing: dict[str, SigningSecret] = {}
        self._seen: dict[str, Caller] = {}
        self._used: set[str] = set()
        self._changing = Lock()
        self.is_open = open
        self.is_stale = False
        """Whether reading the keys has failed for so long that a key may have been revoked since
        the last successful read."""
        self.version = 0
        """A number that grows whenever a key or token that was accepted may have become invalid."""
        self._take(store.read())
        if self._stored.keys:
            with suppress(LaurelsError):  # if it fails, the next change of keys calls it again
                store.set_needs_keys()

    @property
    def can_anyone_enter(self) -> bool:
        """Whether any caller at all can be admitted."""
        return self.is_open or self._admin is not None or bool(self._stored.keys)

    def take(self, stored: KeySet) -> None:
        """Replace the keys by the stored keys, which another process may have changed."""
        if stored != self._stored:
            self._take(stored)

    def _take(self, stored: KeySet) -> None:
        by_sha256: dict[str, Caller] = {}
        for key in stored.keys:
            by_sha256[key.sha256] = caller_of(key, key.expires_ms)
            if key.previous_sha256 is not None:
                ends = [ms for ms in (key.expires_ms, key.previous_until_ms) if ms is not None]
                by_sha256[key.previous_sha256] = caller_of(key, min(ends, default=None))
        self._by_sha256 = by_sha256
        self._by_id = {key.id: caller_of(key, key.expires_ms) for key in stored.keys}
        self._signing = {secret.id: secret for secret in stored.signing}
        self._stored = stored
        # This is a new dictionary, since another thread may still be adding a caller to the old
        # dictionary.
        self._seen = {}
        self.version += 1

    def caller(self, secret: str | None, *, is_use: bool = True) -> Caller:
        """Return the caller that presents a key or token. With `is_use` this counts as a use of the
        key. Raises Unauthorized if the key or token is missing, unknown or expired, and
        KeysUnavailable if the keys could not be read for some time."""
        if secret is None:
            if self.is_open:
                return ANYBODY
            raise Unauthorized("the request has no key")
        seen = self._seen
        caller = seen.get(secret)
        if caller is None:
            caller = self._identified(secret)
            if len(seen) >= _REMEMBERED:
                seen.clear()
            seen[secret] = caller
        if caller.until_ms is not None and caller.until_ms <= self.now_ms():
            what = "key" if caller.subject is None else "token"
            raise Unauthorized(f"the {what} has expired")
        if self.is_stale and caller.key_id != self._admin_id:
            raise KeysUnavailable("the keys could not be read for some time")
        if is_use:
            self._used.add(caller.key_id)
        return caller

    @property
    def _admin_id(self) -> str | None:
        return None if self._admin is None else self._admin[1].key_id

    def _identified(self, secret: str) -> Caller:
        if secret.startswith(TOKEN_PREFIX):
            return self._holder(verify(secret, self._signing))
        sha256 = sha256_of(secret)
        if self._admin is not None and hmac.compare_digest(sha256, self._admin[0]):
            return self._admin[1]
        caller = self._by_sha256.get(sha256)
        if caller is None:
            raise Unauthorized("the key is not known")
        return caller

    def _holder(self, claims: Claims) -> Caller:
        """Return the caller that presents a token. Raise Unauthorized if the key that issued the
        token is gone, or if the token permits more than this key permits now."""
        issuer = self._issuer(claims.iss)
        level = LEVEL["read" if claims.submission is None else "write"]
        if level > issuer.level or not covers_all(issuer.boards, claims.boards):
            raise Unauthorized("the token permits more than the key that issued it")
        ends = [ms for ms in (claims.until_ms, issuer.until_ms) if ms is not None]
        name = f"{issuer.name}/{claims.sub}"
        return Caller(
            name,
            LEVEL["read"] if claims.submission is None else 0,
            claims.boards,
            claims.rate,
            min(ends),
            issuer.key_id,
            claims.sub,
            claims.submission,
            (Bucket(name, claims.rate), *issuer.buckets),
        )

    def _issuer(self, key_id: str) -> Caller:
        if self._admin is not None and key_id == self._admin[1].key_id:
            return self._admin[1]
        if self.is_open and key_id == ANYBODY.key_id:
            return ANYBODY
        issuer = self._by_id.get(key_id)
        if issuer is None:
            raise Unauthorized("the key that issued the token is gone")
        return issuer


def _administrator(admin_key: str | None) -> tuple[str, Caller] | None:
    """Return the hash of LAURELS_ADMIN_KEY and its caller, or None if it is not set."""
    if not admin_key:
        return None
    if len(admin_key) < MIN_ADMIN_KEY:
        raise InvalidKey(
            f"expected LAURELS_ADMIN_KEY to have at least {MIN_ADMIN_KEY} characters, got "
            f"{len(admin_key)}: `openssl rand -hex 32` makes one"
        )
    sha256 = sha256_of(admin_key)
    name = "LAURELS_ADMIN_KEY"
    caller = Caller(
        name,
        LEVEL["admin"],
        key_id=sha256_of(f"id:{sha256}")[:16],
        buckets=(Bucket(name, None),),
    )
    return sha256, caller


def sha256_of(secret: str) -> str:
    """Return the hash under which a key is stored."""
    return hashlib.sha256(secret.encode(errors="surrogatepass")).hexdigest()
