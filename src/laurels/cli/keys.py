"""`key create | list | revoke`: who may ask a server."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Annotated, Literal, Protocol

import typer

from laurels import config
from laurels.client import keys as calls
from laurels.client.keys import KeyTold
from laurels.http.access import Keys

from .options import DEFAULT_URL, AsJson, Url
from .show import Side, complain, put_json, put_line, put_table

app = typer.Typer(help="Keys: who may ask a server, and for what.", rich_markup_mode=None)

_COLUMNS: list[tuple[str, Side]] = [
    ("key", "left"),
    ("scope", "left"),
    ("boards", "left"),
    ("rate", "right"),
    ("made", "left"),
]

KeyName = Annotated[str, typer.Argument(metavar="NAME", help="The key's name.")]


class Ring(Protocol):
    """The keys there are."""

    def listed(self) -> list[KeyTold]: ...

    def create(
        self, name: str, scope: str, boards: Sequence[str], rate: float | None
    ) -> KeyTold: ...

    def revoke(self, name: str) -> None: ...


class _OfFolder:
    """The keys of a folder that nobody serves."""

    def __init__(self, keys: Keys) -> None:
        self._keys = keys

    def listed(self) -> list[KeyTold]:
        return [calls.told(key) for key in self._keys.listed()]

    def create(self, name: str, scope: str, boards: Sequence[str], rate: float | None) -> KeyTold:
        return calls.told(*self._keys.create(name, scope, boards, rate))

    def revoke(self, name: str) -> None:
        self._keys.revoke(name)


class _OfServer:
    """The keys of a running server."""

    def __init__(self, url: str) -> None:
        self._wire = config.remote(url).wire

    def listed(self) -> list[KeyTold]:
        return self._wire.answer(calls.listed())

    def create(self, name: str, scope: str, boards: Sequence[str], rate: float | None) -> KeyTold:
        return self._wire.answer(calls.create(name, scope, boards, rate))

    def revoke(self, name: str) -> None:
        self._wire.answer(calls.revoke(name))

    def close(self) -> None:
        self._wire.close()


@contextmanager
def _ring(url: str) -> Iterator[Ring]:
    if config.is_remote(url):
        server = _OfServer(url)
        try:
            yield server
        finally:
            server.close()
    else:
        with config.keys_of(url, lambda what: complain(f"warning: {what}")) as keys:
            yield _OfFolder(keys)


@app.command()
def create(
    name: KeyName,
    scope: Annotated[
        Literal["read", "write", "admin"],
        typer.Option("--scope", help="What it may do; each may do what those before it may."),
    ] = "read",
    board: Annotated[
        list[str] | None,
        typer.Option(
            "--board",
            metavar="PATTERN",
            help="A board it reaches, or a pattern such as room-*; default all. May be repeated.",
        ),
    ] = None,
    rate: Annotated[
        float | None,
        typer.Option("--rate", metavar="N", help="Requests a second; default the server's."),
    ] = None,
    at: Url = DEFAULT_URL,
    json: AsJson = False,
) -> int:
    """Make a key. It is shown this once.

    \b
    Examples:
      laurels key create game --scope write --board 'room-*'
      laurels key create page --board gifts --rate 50 --at http://127.0.0.1:8080
    """
    with _ring(at) as ring:
        made = ring.create(name, scope, board or ["*"], rate)
    if json:
        put_json(made)
    else:
        put_line(made.key)
    return 0


@app.command("list")
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
        [
            ("key", "left"),
            ("scope", "left"),
            ("boards", "left"),
            ("rate", "right"),
            ("made", "left"),
        ],
        [
            [
                key.name,
                key.scope,
                " ".join(key.boards),
                "" if key.rate is None else f"{key.rate:g}",
                f"{datetime.fromtimestamp(key.created_ms // 1_000, UTC):%Y-%m-%d}",
            ]
            for key in keys
        ],
    )
    return 0


@app.command()
def revoke(name: KeyName, at: Url = DEFAULT_URL, json: AsJson = False) -> int:
    """Take a key away at once.

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
