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
import os
from collections.abc import Callable, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Literal, TypeGuard

import msgspec
from msgspec import Struct

from laurels.errors import FormatTooNew, StorageFailed
from laurels.given import is_name, shown

from .refusals import Forbidden, InvalidKey, KeyExists, Unauthorized, UnknownKey

Scope = Literal["read", "write", "admin"]
LEVEL: dict[str, int] = {"read": 1, "write": 2, "admin": 3}
KEY_PREFIX, TOKEN_PREFIX = "lk_", "lt_"
KEYS_FILE = "keys.json"
FORMAT = 1
MAX_TOKEN_SECONDS = 86_400
_REMEMBERED = 10_000


class Key(Struct, frozen=True):
    """A key as it is kept: `boards` are patterns (`gifts`, `room-*`), `rate` requests a second, by
    default the server's."""

    name: str
    scope: Scope
    boards: tuple[str, ...]
    created_ms: int
    sha256: str
    rate: float | None = None


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


class _Kept(Struct, frozen=True):
    format: int
    secret: str
    keys: list[Key]


class _Statement(Struct, frozen=True, array_like=True):
    boards: tuple[str, ...]
    until_ms: int


class Keys:
    """The keys of one folder; of a store in memory they are gone with the process."""

    def __init__(
        self,
        folder: Path | None,
        admin_key: str | None,
        random: Callable[[int], bytes],
        now_ms: Callable[[], int],
    ) -> None:
        self._path = None if folder is None else folder / KEYS_FILE
        self._random = random
        self._now_ms = now_ms
        self._admin = None if not admin_key else _sha256(admin_key)
        kept = self._read()
        self._secret = random(32).hex() if kept is None else kept.secret
        self._keys = {} if kept is None else {key.sha256: key for key in kept.keys}
        self._seen: dict[str, Caller] = {}

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
        if any(key.name == name for key in self._keys.values()):
            raise KeyExists(f"there is a key {name!r}")
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
        self._write({**self._keys, key.sha256: key})
        return key, secret

    def revoke(self, name: str) -> None:
        """Takes a key away at once. Raises UnknownKey, StorageFailed."""
        kept = {sha256: key for sha256, key in self._keys.items() if key.name != name}
        if len(kept) == len(self._keys):
            raise UnknownKey(f"there is no key {name!r}")
        self._write(kept)

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

    def _read(self) -> _Kept | None:
        if self._path is None or not self._path.exists():
            return None
        try:
            kept = msgspec.json.decode(self._path.read_bytes(), type=_Kept)
        except OSError as error:
            raise StorageFailed(f"{self._path} could not be read ({error})") from error
        except msgspec.MsgspecError as error:
            raise InvalidKey(f"{self._path} is no file of keys ({error})") from error
        if kept.format > FORMAT:
            raise FormatTooNew(f"{self._path} is in format {kept.format}, not {FORMAT}")
        return kept

    def _write(self, keys: dict[str, Key]) -> None:
        """Keeps the keys: on the disk before anybody is told."""
        if self._path is not None:
            kept = msgspec.json.encode(_Kept(FORMAT, self._secret, list(keys.values())))
            try:
                _replace(self._path, msgspec.json.format(kept))
            except OSError as error:
                raise StorageFailed(f"{self._path} could not be written ({error})") from error
        self._keys = keys
        self._seen.clear()


def is_scope(value: object) -> TypeGuard[Scope]:
    return isinstance(value, str) and value in LEVEL


def _replace(path: Path, content: bytes) -> None:
    """Puts content in the place of a file that only its owner may read, on the disk."""
    written = path.with_name(f"{path.name}.unfinished")
    file = os.open(written, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    try:
        os.write(file, content)
        os.fsync(file)
    finally:
        os.close(file)
    written.replace(path)
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


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
