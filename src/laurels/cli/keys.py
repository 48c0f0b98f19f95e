"""The commands `key create | list | rotate | revoke`, which manage access to a server."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Annotated, Literal, Protocol

import typer

from laurels import config
from laurels.api.recording import AdministrativeCall, Recorder
from laurels.model.durations import duration_of
from laurels.server.auth.access import Keys
from laurels.server.auth.at_rest import keys_of
from laurels.stores.http import keys as calls
from laurels.stores.http.keys import KeyDetails

from .errors import Usage
from .option_groups import command
from .options import DEFAULT_URL, AsJson, Url
from .show import complain, put_json, put_line, put_table
from .texts import Side

app = typer.Typer(help="Keys: access to a server and its boards.", rich_markup_mode=None)

PERMISSIONS = "Permissions"
"""The help panel of the options for a key's permissions and expiry."""

_COLUMNS: list[tuple[str, Side]] = [
    ("key", "left"),
    ("scope", "left"),
    ("boards", "left"),
    ("rate", "right"),
    ("created", "left"),
    ("expires", "left"),
    ("used", "left"),
]

KeyName = Annotated[str, typer.Argument(metavar="NAME", help="The key's name.")]


class KeyRing(Protocol):
    """The operations of the commands on the keys of a store."""

    def listed(self) -> list[KeyDetails]: ...

    def create(
        self,
        name: str,
        scope: str,
        boards: Sequence[str],
        rate: float | None,
        seconds: int | None,
    ) -> KeyDetails: ...

    def rotate(self, name: str, grace_seconds: int) -> KeyDetails: ...

    def rotate_signing(self) -> None: ...

    def revoke(self, name: str) -> None: ...


class _StoreKeys:
    """The keys of a folder that is not in use, or of an index server."""

    def __init__(self, keys: Keys, record: Recorder) -> None:
        self._keys = keys
        self._record = record

    def listed(self) -> list[KeyDetails]:
        used = self._keys.last_used()
        return [
            calls.describe_key(key, last_used_ms=used.get(key.id)) for key in self._keys.listed()
        ]

    def create(
        self,
        name: str,
        scope: str,
        boards: Sequence[str],
        rate: float | None,
        seconds: int | None,
    ) -> KeyDetails:
        fields = {"scope": scope, "boards": boards, "rate": rate, "seconds": seconds}
        with self._record.call(AdministrativeCall("create_key", target=name, request=fields)):
            return calls.describe_key(*self._keys.create(name, scope, boards, rate, seconds))

    def rotate(self, name: str, grace_seconds: int) -> KeyDetails:
        fields = {"grace_seconds": grace_seconds}
        with self._record.call(AdministrativeCall("rotate_key", target=name, request=fields)):
            return calls.describe_key(*self._keys.rotate(name, grace_seconds))

    def rotate_signing(self) -> None:
        with self._record.call(AdministrativeCall("rotate_signing")):
            self._keys.rotate_signing()

    def revoke(self, name: str) -> None:
        with self._record.call(AdministrativeCall("revoke_key", target=name)):
            self._keys.revoke(name)


class _ServiceKeys:
    """The keys of a running server."""

    def __init__(self, url: str) -> None:
        self._wire = config.remote_wire(url)

    def listed(self) -> list[KeyDetails]:
        return self._wire.answer(calls.listed())

    def create(
        self,
        name: str,
        scope: str,
        boards: Sequence[str],
        rate: float | None,
        seconds: int | None,
    ) -> KeyDetails:
        return self._wire.answer(calls.create(name, scope, boards, rate, seconds))

    def rotate(self, name: str, grace_seconds: int) -> KeyDetails:
        return self._wire.answer(calls.rotate(name, grace_seconds))

    def rotate_signing(self) -> None:
        self._wire.answer(calls.rotate_signing())

    def revoke(self, name: str) -> None:
        self._wire.answer(calls.revoke(name))

    def close(self) -> None:
        self._wire.close()


@contextmanager
def _ring(url: str) -> Iterator[KeyRing]:
    if config.is_remote(url):
        server = _ServiceKeys(url)
        try:
            yield server
        finally:
            server.close()
    else:
        with (
            keys_of(url, lambda warning: complain(f"warning: {warning}")) as keys,
            config.recorder_of(url) as record,
        ):
            yield _StoreKeys(keys, record)


@command(app, "create")
def create(
    name: KeyName,
    scope: Annotated[
        Literal["read", "write", "admin"],
        typer.Option(
            "--scope",
            help="What the key may do; each scope includes those before it.",
            rich_help_panel=PERMISSIONS,
        ),
    ] = "read",
    board: Annotated[
        list[str] | None,
        typer.Option(
            "--board",
            metavar="PATTERN",
            help="A board that the key may use, or a pattern such as room-*. May be repeated. "
            "Default: all boards.",
            rich_help_panel=PERMISSIONS,
        ),
    ] = None,
    rate: Annotated[
        float | None,
        typer.Option(
            "--rate",
            metavar="N",
            help="Maximum number of requests per second. Default: the limit of the server.",
            rich_help_panel=PERMISSIONS,
        ),
    ] = None,
    expires_in: Annotated[
        str | None,
        typer.Option(
            "--expires-in",
            metavar="DURATION",
            help="How long the key is valid, such as 12h or 90d. By default it does not expire.",
            rich_help_panel=PERMISSIONS,
        ),
    ] = None,
    at: Url = DEFAULT_URL,
    json: AsJson = False,
) -> int:
    """Create a key. Its secret is shown only once.

    \b
    Examples:
      laurels key create game --scope write --board 'room-*'
      laurels key create page --board gifts --rate 50 --at http://127.0.0.1:8080
      laurels key create partner --board gifts --expires-in 90d
    """
    with _ring(at) as ring:
        seconds = None if expires_in is None else _seconds(expires_in)
        key = ring.create(name, scope, board or ["*"], rate, seconds)
    if json:
        put_json(key)
    else:
        put_line(key.key)
    return 0


@command(app, "list")
def list_(at: Url = DEFAULT_URL, json: AsJson = False) -> int:
    """List the keys, without their secrets.

    \b
    Example:
      laurels key list --at /srv/boards
    """
    with _ring(at) as ring:
        keys = ring.listed()
    if json:
        put_json(keys)
        return 0
    put_table(
        _COLUMNS,
        [
            [
                key.name,
                key.scope,
                " ".join(key.boards),
                "" if key.rate is None else f"{key.rate:g}",
                _day(key.created_ms),
                _day(key.expires_ms),
                _day(key.last_used_ms),
            ]
            for key in keys
        ],
    )
    return 0


@command(app, "revoke")
def revoke(name: KeyName, at: Url = DEFAULT_URL, json: AsJson = False) -> int:
    """Revoke a key at once.

    \b
    Example:
      laurels key revoke game
    """
    with _ring(at) as ring:
        ring.revoke(name)
    if json:
        put_json({"revoked": name})
    else:
        put_line(f"revoked {name}")
    return 0


@command(app, "rotate")
def rotate(
    name: Annotated[str | None, typer.Argument(metavar="NAME", help="The key's name.")] = None,
    tokens: Annotated[
        bool,
        typer.Option(
            "--tokens", help="Rotate the secret that signs tokens, instead of the secret of a key."
        ),
    ] = False,
    grace: Annotated[
        str,
        typer.Option(
            "--grace",
            metavar="DURATION",
            help="For how long the previous secret is still accepted.",
        ),
    ] = "1h",
    at: Url = DEFAULT_URL,
    json: AsJson = False,
) -> int:
    """Give a key a new secret, which is shown only once, or sign tokens with a new secret.

    Existing tokens stay valid until they expire; rotating twice invalidates them all.

    \b
    Examples:
      laurels key rotate game
      laurels key rotate game --grace 0s
      laurels key rotate --tokens
    """
    if (name is None) != tokens:
        raise Usage("expected the name of a key, or --tokens")
    with _ring(at) as ring:
        if name is None:
            ring.rotate_signing()
            put_json({"rotated": "tokens"}) if json else put_line("rotated tokens")
            return 0
        key = ring.rotate(name, _seconds(grace))
    if json:
        put_json(key)
    else:
        put_line(key.key)
    return 0


def _seconds(text: str) -> int:
    """Return a duration in whole seconds."""
    return duration_of("duration", text) // 1_000


def _day(ms: int | None) -> str:
    return "" if ms is None else f"{datetime.fromtimestamp(ms // 1_000, UTC):%Y-%m-%d}"
