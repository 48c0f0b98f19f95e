"""Who may do what: keys with scopes and boards, and short-lived tokens for browsers.

A key is 32 random bytes, of which only the SHA-256 is kept: nothing shorter than the key itself
can be guessed from the file. It is looked up by that hash, so no comparison of a key tells by its
time how far it was right. A token is a statement (boards, end) with an HMAC by the server's secret;
it needs no memory and only reads.
"""

import base64
import binascii
import hashlib
import hmac
from collections.abc import Callable, Sequence
from fnmatch import fnmatchcase
from threading import Lock
from typing import TypeGuard

import msgspec
from msgspec import Struct

from laurels.given import is_name, shown

from .key_places import Key, KeyPlace, Ring, Scope
from .refusals import Forbidden, InvalidKey, KeyExists, Unauthorized, UnknownKey

LEVEL: dict[str, int] = {"read": 1, "write": 2, "admin": 3}
KEY_PREFIX, TOKEN_PREFIX = "lk_", "lt_"
MAX_TOKEN_SECONDS = 86_400
_REMEMBERED = 10_000


class Caller(Struct, frozen=True):
    """Who asks, and how far that reaches. `until_ms` is the end of a token."""

    name: str
    level: int
    boards: tuple[str, ...] | None = None
    rate: float | None = None
    until_ms: int | None = None

    def ensure(self, level: int, board: str | None) -> None:
        """Raises Forbidden where the scope or the board is out of reach."""
        if level > self.level:
            needed = next(scope for scope, other in LEVEL.items() if other == level)
            raise Forbidden(f"{self.name!r} has not the scope {needed}")
        if board is not None and not self.sees(board):
            raise Forbidden(f"{self.name!r} does not reach the board {board!r}")

    def sees(self, board: str) -> bool:
        boards = self.boards
        return boards is None or any(fnmatchcase(board, pattern) for pattern in boards)


ANYBODY = Caller("anybody", LEVEL["admin"])
"""Who asks where there are no keys: the server then listens on this machine only."""
UNKNOWN = Caller("unknown", 0)


class _Statement(Struct, frozen=True, array_like=True):
    boards: tuple[str, ...]
    until_ms: int


class Keys:
    """The keys of one deployment, as they were read last from where they are kept."""

    def __init__(
        self,
        place: KeyPlace,
        admin_key: str | None,
        random: Callable[[int], bytes],
        now_ms: Callable[[], int],
    ) -> None:
        self._place = place
        self._random = random
        self._now_ms = now_ms
        self._admin = None if not admin_key else _sha256(admin_key)
        self._secret = random(32).hex()
        self._keys: dict[str, Key] = {}
        self._seen: dict[str, Caller] = {}
        self._changing = Lock()
        self.take(place.read())

    def take(self, ring: Ring) -> None:
        """Makes the keys what they are where they are kept: another process may change them."""
        secret = ring.secret or self._secret
        keys = {key.sha256: key for key in ring.keys}
        if (secret, keys) != (self._secret, self._keys):
            self._secret, self._keys = secret, keys
            self._seen.clear()

    @property
    def in_use(self) -> bool:
        """Whether there is any key: without one everybody on this machine is let in."""
        return self._admin is not None or bool(self._keys)

    def caller(self, secret: str | None) -> Caller:
        """Who presents a key or a token. Raises Unauthorized."""
        if secret is None:
            if not self.in_use:
                return ANYBODY
            raise Unauthorized("the request has no key")
        caller = self._seen.get(secret)
        if caller is None:
            caller = self._found(secret)
            if len(self._seen) >= _REMEMBERED:
                self._seen.clear()
            self._seen[secret] = caller
        if caller.until_ms is not None and caller.until_ms <= self._now_ms():
            raise Unauthorized("the token has ended")
        return caller

    def _found(self, secret: str) -> Caller:
        if secret.startswith(TOKEN_PREFIX):
            return self._vouched(secret)
        sha256 = _sha256(secret)
        if self._admin is not None and hmac.compare_digest(sha256, self._admin):
            return Caller("LAURELS_ADMIN_KEY", LEVEL["admin"])
        key = self._keys.get(sha256)
        if key is None:
            if not self.in_use:
                return ANYBODY
            raise Unauthorized("the key is not known")
        return Caller(key.name, LEVEL[key.scope], key.boards, key.rate)

    def listed(self) -> list[Key]:
        return sorted(self._keys.values(), key=lambda key: key.name)

    def create(
        self, name: object, scope: object, boards: object = ("*",), rate: object = None
    ) -> tuple[Key, str]:
        """A new key, kept, and the secret, which is told this once. Raises InvalidKey, KeyExists,
        StorageFailed."""
        if not is_name(name):
            raise InvalidKey(f"{shown(name)} is no name for a key")
        if not is_scope(scope):
            raise InvalidKey(f"{shown(scope)} is no scope")
        if rate is not None and (not isinstance(rate, (int, float)) or not 0 < rate < 1e9):
            raise InvalidKey(f"{shown(rate)} is no rate: requests a second")
        secret = KEY_PREFIX + _text(self._random(32))
        key = Key(
            name=name,
            scope=scope,
            boards=_patterns(boards),
            created_ms=self._now_ms(),
            sha256=_sha256(secret),
            rate=None if rate is None else float(rate),
        )
        with self._changing:
            if not self._place.add(key, self._secret):
                raise KeyExists(f"there is a key {name!r}")
            self.take(self._place.read())
        return key, secret

    def revoke(self, name: str) -> None:
        """Takes a key away at once. Raises UnknownKey, StorageFailed."""
        with self._changing:
            if not self._place.remove(name):
                raise UnknownKey(f"there is no key {name!r}")
            self.take(self._place.read())

    def token(self, caller: Caller, boards: object, seconds: object) -> tuple[str, int]:
        """A token that reads these boards for so long, and when it ends. Raises InvalidKey,
        Forbidden where the caller does not reach all of them itself, or comes with a token."""
        if caller.until_ms is not None:
            raise Forbidden("a token does not make another one")
        if type(seconds) is not int or not 1 <= seconds <= MAX_TOKEN_SECONDS:
            raise InvalidKey(
                f"a token lasts 1 to {MAX_TOKEN_SECONDS} seconds, not {shown(seconds)}"
            )
        patterns = _patterns(boards)
        if caller.boards is not None:
            for pattern in patterns:
                if not any(_covers(own, pattern) for own in caller.boards):
                    raise Forbidden(f"{caller.name!r} does not reach the boards {pattern!r}")
        with self._changing:
            self._secret = self._place.settle(self._secret)
        until_ms = self._now_ms() + seconds * 1_000
        said = msgspec.json.encode(_Statement(patterns, until_ms))
        return self._signed(said), until_ms

    def _vouched(self, token: str) -> Caller:
        try:
            said = _bytes(token.removeprefix(TOKEN_PREFIX).partition(".")[0])
            if not hmac.compare_digest(token.encode(), self._signed(said).encode()):
                raise Unauthorized("the token is not of this server")
            statement = msgspec.json.decode(said, type=_Statement)
        except (ValueError, binascii.Error, msgspec.MsgspecError) as error:
            raise Unauthorized("the token is not of this server") from error
        return Caller("token", LEVEL["read"], statement.boards, None, statement.until_ms)

    def _signed(self, said: bytes) -> str:
        signature = hmac.digest(bytes.fromhex(self._secret), said, "sha256")
        return f"{TOKEN_PREFIX}{_text(said)}.{_text(signature)}"


def is_scope(value: object) -> TypeGuard[Scope]:
    return isinstance(value, str) and value in LEVEL


def _patterns(boards: object) -> tuple[str, ...]:
    if not isinstance(boards, Sequence) or isinstance(boards, (str, bytes)) or not boards:
        raise InvalidKey(f"{shown(boards)} is no list of boards")
    for pattern in boards:
        if not isinstance(pattern, str) or not 1 <= len(pattern) <= 64:
            raise InvalidKey(f"{shown(pattern)} is no name or pattern of boards")
    return tuple(boards)


def _covers(own: str, pattern: str) -> bool:
    """Whether all boards of a pattern are among those of another; no where that is hard to say."""
    if own == pattern or (is_name(pattern) and fnmatchcase(pattern, own)):
        return True
    start = own.removesuffix("*")
    return start != own and not set(start) & set("*?[") and pattern.startswith(start)


def _sha256(secret: str) -> str:
    return hashlib.sha256(secret.encode(errors="surrogatepass")).hexdigest()


def _text(content: bytes) -> str:
    return base64.urlsafe_b64encode(content).rstrip(b"=").decode()


def _bytes(text: str) -> bytes:
    return base64.urlsafe_b64decode(text.encode() + b"=" * (-len(text) % 4))
