"""The settings of the server: one table for TOML, the environment, the command line and the docs.

Each setting is a field, with its default and its description beside it. The value on the command
line comes first, then `LAURELS_…` in the environment, then the file, then the default.
"""

import re
import tomllib
from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any, Literal, get_args, get_type_hints

import msgspec
from msgspec import Meta, Struct

from laurels.config import KEY_VARIABLE, LEDGER_VARIABLES, ensure_placeable, store_list
from laurels.errors import LaurelsError
from laurels.errors.service import InvalidKey, InvalidSettings
from laurels.flows.sinks.configured import SinkSettings
from laurels.flows.sources.configured import ConfiguredSource, SourceName
from laurels.model.board_fields import is_ledger_name
from laurels.model.board_patterns import covers_all, parse_patterns
from laurels.model.validation import expectation, is_name, safe_repr
from laurels.sql.databases import dialect_of

PREFIX = "LAURELS_"
ADMIN_KEY = "LAURELS_ADMIN_KEY"
"""The variable of the admin key. The key is neither an option nor in the settings file: it is in
the environment, or in a file that the environment names."""
ADMIN_KEY_FILE = "LAURELS_ADMIN_KEY_FILE"
_NOT_SETTINGS = (
    *(ADMIN_KEY, ADMIN_KEY_FILE, KEY_VARIABLE, "LAURELS_URL", "LAURELS_FROM", "LAURELS_TO"),
    *("LAURELS_REJECTS", "LAURELS_WITH", "LAURELS_WEBHOOK_SECRET"),
)
"""Variables of laurels that are not settings of the server: secrets, and variables of other
commands than `serve`."""
_OPEN_ENDED = ("LAURELS_TEST_", LEDGER_VARIABLES)
"""How variables begin that are not settings: those of tests, and the URLs of ledgers."""

_Port = Annotated[int, Meta(ge=0, le=65_535)]
_Count = Annotated[int, Meta(ge=1, le=10_000_000)]
_Bytes = Annotated[int, Meta(ge=1_024, le=1 << 30)]


REMOVED = {
    "insecure": "a server for other machines needs keys; remove the setting: `laurels serve` "
    "makes a key and prints it, and --open serves this machine alone"
}
"""Settings of earlier versions, each with the message that says what to use instead."""

_BOARD_PATTERNS = ("cache_allow", "cache_deny")
"""Settings that are patterns of board names."""

FILE_ONLY = ("placement", "ledgers", "sinks", "sources")
"""Settings that are tables of the file. They are neither options nor variables."""


class Settings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The settings of a server."""

    data: Annotated[
        str, Meta(description="Where the boards are: a folder, memory: or redis://host:port.")
    ] = "laurels-data"
    host: Annotated[str, Meta(description="The address to listen on.")] = "127.0.0.1"
    port: Annotated[_Port, Meta(description="The port to listen on; 0 takes a free one.")] = 8080
    workers: Annotated[
        Annotated[int, Meta(ge=1, le=256)],
        Meta(description="Number of processes that serve; more than one needs an index server."),
    ] = 1
    open: Annotated[
        bool,
        Meta(description="Serve without keys, to this machine alone; a folder or memory only."),
    ] = False
    cors_origins: Annotated[
        list[str],
        Meta(description="Origins whose pages may call the API, such as https://example.org."),
    ] = []
    trusted_proxy: Annotated[
        list[str],
        Meta(description="Addresses or networks of proxies that report a client's address."),
    ] = []
    forwarded_header: Annotated[
        Literal["x-forwarded-for", "forwarded"],
        Meta(description="The header in which trusted proxies report a client's address."),
    ] = "x-forwarded-for"
    max_clock_step: Annotated[
        str,
        Meta(
            pattern="^[0-9]{1,9}(s|m|h|d)$",
            description="Longest clock leap followed at once; a longer one must last 10 minutes.",
        ),
    ] = "1h"
    log_format: Annotated[
        Literal["console", "json"], Meta(description="The format of the server's log.")
    ] = "console"
    log_requests: Annotated[bool, Meta(description="Log every request, not only failures.")] = False
    max_body: Annotated[_Bytes, Meta(description="Maximum size of a request body in bytes.")] = (
        8 << 20
    )
    max_connections: Annotated[
        _Count,
        Meta(description="Maximum number of open connections; further ones wait until one closes."),
    ] = 13_000
    connections_per_address: Annotated[
        _Count,
        Meta(
            description="Maximum number of connections of one IPv4 address or IPv6 /64; at "
            "most half of max_connections."
        ),
    ] = 2_000
    max_bodies: Annotated[
        Annotated[int, Meta(ge=1 << 20, le=1 << 36)],
        Meta(description="Maximum bytes of all bodies in progress; one caller may use half."),
    ] = 64 << 20
    body_seconds: Annotated[
        Annotated[int, Meta(ge=1, le=600)],
        Meta(description="Seconds within which a body must arrive, plus one for each 64 KiB."),
    ] = 10
    idle_seconds: Annotated[
        Annotated[int, Meta(ge=1, le=3_600)],
        Meta(description="Seconds after which a connection without a whole request is closed."),
    ] = 60
    max_url: Annotated[_Bytes, Meta(description="Maximum bytes of a path and its query.")] = 8 << 10
    max_headers: Annotated[
        Annotated[int, Meta(ge=8_192, le=1 << 20)],
        Meta(description="Maximum bytes of a request's headers, path and query."),
    ] = 32 << 10
    max_writes: Annotated[
        _Count,
        Meta(description="Maximum number of writes waiting for the disk; further ones get 503."),
    ] = 2_000
    max_streams: Annotated[_Count, Meta(description="Maximum number of open streams.")] = 10_000
    streams_per_key: Annotated[
        _Count,
        Meta(description="Maximum number of open streams of one key and its tokens."),
    ] = 2_000
    streams_per_token: Annotated[
        _Count, Meta(description="Maximum number of open streams of one subject's tokens.")
    ] = 1_000
    cache_bytes: Annotated[
        Annotated[int, Meta(ge=0, le=1 << 36)],
        Meta(description="Maximum bytes of answers kept in memory by each process; 0 keeps none."),
    ] = 64 << 20
    cache_allow: Annotated[
        list[str],
        Meta(description="Patterns of the boards whose answers may be kept; all if empty."),
    ] = []
    cache_deny: Annotated[
        list[str], Meta(description="Patterns of boards whose answers are never kept.")
    ] = []
    rate: Annotated[
        Annotated[float, Meta(ge=0)],
        Meta(description="Maximum requests per second of one key; 0 for no limit."),
    ] = 0.0
    burst: Annotated[
        Annotated[int, Meta(ge=0)],
        Meta(description="Maximum requests at once beyond the rate; 0 for twice the rate."),
    ] = 0
    address_rate: Annotated[
        Annotated[float, Meta(ge=0)],
        Meta(description="Maximum requests per second of one address; 0 for no limit."),
    ] = 0.0
    live_interval: Annotated[
        Annotated[int, Meta(ge=20, le=60_000)],
        Meta(description="Default milliseconds between two changes of a live feed."),
    ] = 100
    stall_seconds: Annotated[
        Annotated[int, Meta(ge=1, le=600)],
        Meta(description="Seconds after which a stream whose client stops reading is closed."),
    ] = 10
    placement: dict[str, str] = {}
    """The stores of boards by patterns of their names, the table `[placement]` of the file. The
    first pattern that matches decides; all other boards are in the store `data`."""
    ledgers: dict[str, str] = {}
    """The URLs of the ledgers that boards on an index server name, the table `[ledgers]` of the
    file."""
    sinks: dict[str, SinkSettings] = {}
    """The sinks by name. They are tables `[sinks.NAME]` of the file."""
    sources: dict[SourceName, ConfiguredSource] = {}
    """The sources by name. They are tables `[sources.NAME]` of the file."""

    @property
    def stores(self) -> list[str]:
        """The URLs of all stores, the default store first."""
        return store_list(self.data, self.placement).urls


class Setting(Struct, frozen=True):
    """A row of the table of settings."""

    name: str
    kind: Any
    default: Any
    does: str
    least: float | None = None
    most: float | None = None

    @property
    def variable(self) -> str:
        """The name of the setting in the environment."""
        return PREFIX + self.name.upper()

    @property
    def option(self) -> str:
        """The name of the setting on the command line."""
        return "--" + self.name.replace("_", "-")


def table() -> Iterator[Setting]:
    """Return all settings in the order in which they are documented."""
    hints = get_type_hints(Settings, include_extras=True)
    for field in msgspec.structs.fields(Settings):
        if field.name in FILE_ONLY:
            continue
        described = hints[field.name]
        default = field.default_factory() if field.default is msgspec.NODEFAULT else field.default
        kind, *metas = get_args(described)
        least, most = (
            next((limit for meta in metas if (limit := getattr(meta, bound)) is not None), None)
            for bound in ("ge", "le")
        )
        yield Setting(field.name, kind, default, metas[-1].description, least, most)


def settings_of(
    arguments: Mapping[str, Any], environment: Mapping[str, str], file: Path | None
) -> Settings:
    """Return the settings of a server. `arguments` has the options of the command line; an absent
    option is None.

    Raises InvalidSettings, which says where a wrong value comes from.
    """
    _ensure_no_misspelt(environment)
    merged: dict[str, Any] = {} if file is None else dict(_of_file(file))
    merged |= _of_environment(environment)
    merged |= {name: value for name, value in arguments.items() if value is not None}
    return _judged(merged, "")


def admin_key_of(environment: Mapping[str, str]) -> str | None:
    """Return the admin key. It is LAURELS_ADMIN_KEY, or the content of the file that
    LAURELS_ADMIN_KEY_FILE names, without surrounding whitespace. Return None if neither is set.
    Raises InvalidSettings if both are set, or if the file is empty or cannot be read."""
    key, file = environment.get(ADMIN_KEY), environment.get(ADMIN_KEY_FILE)
    if not file:
        return key or None
    if key:
        raise InvalidSettings(f"expected {ADMIN_KEY} or {ADMIN_KEY_FILE}, got both")
    try:
        secret = Path(file).read_text().strip()
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidSettings(f"{ADMIN_KEY_FILE}: its file cannot be read ({error})") from error
    if not secret:
        raise InvalidSettings(f"{ADMIN_KEY_FILE} names an empty file")
    return secret


def _of_file(file: Path) -> Mapping[str, Any]:
    try:
        values = tomllib.loads(file.read_text())
    except OSError as error:
        raise InvalidSettings(f"{file} cannot be read ({error.strerror or error})") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InvalidSettings(f"{file} is not TOML ({error})") from error
    _judged(values, f"{file}: ")
    return values


def _ensure_no_misspelt(environment: Mapping[str, str]) -> None:
    """Raise InvalidSettings for a variable with the prefix LAURELS_ that is not known. It is
    probably a misspelt setting."""
    for name in REMOVED:
        if (variable := PREFIX + name.upper()) in environment:
            _judged({name: environment[variable]}, f"{variable}: ")
    names = [*(setting.variable for setting in table()), *_NOT_SETTINGS]
    for name in sorted(environment):
        if not name.startswith(PREFIX) or name.startswith(_OPEN_ENDED) or name in names:
            continue
        close = get_close_matches(name[len(PREFIX) :], [each[len(PREFIX) :] for each in names], 1)
        hint = f", did you mean {PREFIX}{close[0]}?" if close else ""
        raise InvalidSettings(f"there is no setting {name} to take from the environment{hint}")


def _of_environment(environment: Mapping[str, str]) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for setting in table():
        text = environment.get(setting.variable)
        if text is None:
            continue
        value: Any = text.split(",") if setting.kind == list[str] else text
        _judged({setting.name: value}, f"{setting.variable}: ")
        values[setting.name] = value
    return values


def _judged(values: Mapping[str, Any], where: str) -> Settings:
    for name, instead in REMOVED.items():
        if name in values:
            raise InvalidSettings(f"{where}the setting {name} was removed: {instead}")
    try:
        settings = msgspec.convert(values, Settings, strict=False)
    except msgspec.ValidationError as error:
        raise InvalidSettings(f"{where}{_named(str(error), values)}") from error
    for name in _BOARD_PATTERNS:
        if patterns := getattr(settings, name):
            try:
                parse_patterns(patterns)
            except InvalidKey as error:
                raise InvalidSettings(f"{where}{name}: {error.what}") from error
    _ensure_placement(settings.placement, where)
    _ensure_ledgers(settings.ledgers, where)
    return settings


def _ensure_ledgers(ledgers: Mapping[str, str], where: str) -> None:
    """Raise InvalidSettings if a name cannot be that of a ledger, or if its URL does not name a
    database that a ledger can be in."""
    for name, url in ledgers.items():
        if not is_ledger_name(name):
            raise InvalidSettings(f"{where}expected the name of a ledger, got {safe_repr(name)}")
        try:
            dialect_of(url)
        except LaurelsError as error:
            raise InvalidSettings(f"{where}[ledgers], {name}: {error.what}") from None


def _ensure_placement(placement: Mapping[str, str], where: str) -> None:
    """Raise InvalidSettings for a wrong pattern or URL, or for a pattern that never applies, since
    an earlier pattern matches all names that it matches."""
    earlier: list[str] = []
    for pattern, url in placement.items():
        try:
            parse_patterns([pattern])
            ensure_placeable(url)
        except LaurelsError as error:
            raise InvalidSettings(
                f"{where}[placement], pattern {safe_repr(pattern)}: {error.what}"
            ) from None
        if covers_all(earlier, [pattern]):
            raise InvalidSettings(
                f"{where}[placement]: the pattern {safe_repr(pattern)} never applies, since an "
                "earlier pattern matches the same boards"
            )
        earlier.append(pattern)


def _named(message: str, values: Mapping[str, Any]) -> str:
    """Return the message of a validation error. Instead of a JSON path it has the setting and its
    value."""
    for table in FILE_ONLY:
        if message.endswith(f" - at `key` in `$.{table}`"):
            wrong = next(name for name in values[table] if not is_name(name))
            return f"expected a name in [{table}.NAME], got {safe_repr(wrong)}"
    what, _, path = message.partition(" - at `$.")
    path = path.rstrip("`")
    name = re.split(r"[.\[]", path)[0]
    if name in FILE_ONLY:
        return _named_without_value(what, path)
    return expectation(what, name, values[name]) if name in values else message


def _named_without_value(what: str, path: str) -> str:
    """Return the message for an error in a table of the file. It contains no values of the table,
    since some are passwords."""
    place = path.replace("[...]", ".NAME")
    what = re.sub(r"^Invalid enum value .*", "unexpected value", what, flags=re.DOTALL)
    return f"[{place}]: {what[:1].lower()}{what[1:]}"
