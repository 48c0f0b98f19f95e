"""Open the target of a sink by its URL; the only module that knows all kinds of targets."""

from collections.abc import Callable
from pathlib import Path
from urllib.parse import parse_qsl, urlsplit

from msgspec import Struct

from laurels.api.aio import AsyncLeaderboards
from laurels.errors.sinks import InvalidMapping, InvalidTarget
from laurels.flows.ledger.target import LedgerTarget
from laurels.flows.stream_url import ensure_path, split_stream_url
from laurels.sql.databases import dialect_of
from laurels.stores.redis.connection.urls import is_redis, redis_address

from .jetstream import JetStreamTarget
from .lines import LinesTarget
from .mapping import FieldMapping
from .options import What
from .redis_streams import RedisStreamTarget
from .target import SinkTarget

SQL = ("postgresql", "postgres", "mysql", "mariadb", "sqlite")


class DeliveryOptions(Struct, frozen=True):
    """The options of a target besides its URL."""

    fields: str | None = None
    """A mapping of fields; see `FieldMapping`."""
    payout_fields: str | None = None
    """A mapping of the fields of payouts."""
    secret: str | None = None
    allows_private: bool = False
    authorities: str | None = None


def what_to_send(what: What | None, delivery: DeliveryOptions) -> What:
    """Return whether a sink sends changes, payouts or both: the choice of the operator or, by
    default, both. A sink with a mapping of fields sends payouts only if it also has a mapping of
    payouts. Raises InvalidMapping."""
    if what == "payouts" and delivery.fields is not None:
        raise InvalidMapping("expected a mapping of payouts for a sink that sends only payouts")
    if what == "changes" and delivery.payout_fields is not None:
        raise InvalidMapping("expected no mapping of payouts for a sink that sends only changes")
    if what is not None:
        return what
    is_own_form = delivery.fields is not None and delivery.payout_fields is None
    return "changes" if is_own_form else "all"


def webhook_secret(secret: str | None, file: Path | None) -> str | None:
    """Return the secret that signs webhooks. If the options name a file, read the secret from it.
    Return None if there is no secret. Raises InvalidTarget."""
    if file is None:
        return secret
    if secret is not None:
        raise InvalidTarget("expected the secret of a webhook, or a file that has it, got both")
    try:
        key = file.read_text().strip()
    except (OSError, ValueError) as error:
        raise InvalidTarget(f"the file with the secret cannot be read ({error})") from error
    if not key:
        raise InvalidTarget(f"expected a secret in {file}, got an empty file")
    return key


def open_target(
    url: str,
    sink: str,
    options: DeliveryOptions,
    boards: AsyncLeaderboards,
    now_ms: Callable[[], int],
) -> SinkTarget:
    """Return the target that a URL names, not yet connected. Raises InvalidTarget, InvalidMapping,
    MissingDriver."""
    scheme = url.partition("://")[0].lower() if "://" in url else ""
    if scheme:
        _ensure_address(url, scheme)
    if scheme in SQL:
        if options.fields is not None or options.payout_fields is not None:
            raise InvalidMapping("a ledger has its own tables and accepts no mapping of fields")
        dialect, prefix = dialect_of(url)
        return LedgerTarget(dialect, prefix, sink, boards, now_ms)
    mapping = FieldMapping(options.fields, options.payout_fields)
    if is_redis(url):
        return _redis_stream(url, sink, mapping)
    if scheme in ("nats", "tls"):
        return JetStreamTarget(url, mapping)
    if scheme in ("http", "https"):
        from .webhook import WebhookOptions, WebhookTarget  # noqa: PLC0415 (an optional package)

        webhook = WebhookOptions(options.secret, options.allows_private, options.authorities)
        return WebhookTarget(url, mapping, webhook, now_ms)
    if scheme:
        raise InvalidTarget(f"expected a target, got an address that begins with {scheme}://")
    if not url:
        raise InvalidTarget("expected a target, got an empty text")
    ensure_path(url, InvalidTarget)
    return LinesTarget(None if url == "-" else Path(url), mapping)


def _ensure_address(url: str, scheme: str) -> None:
    """Raise InvalidTarget for a malformed host or port. The message does not quote the URL, which
    may contain a password."""
    try:
        parts = urlsplit(url)
        if scheme in ("nats", "tls", "http", "https"):
            _ = parts.port
    except ValueError:
        raise InvalidTarget(
            f"expected a host, or host:port, after {scheme}://; write an IPv6 address in brackets"
        ) from None


def _redis_stream(url: str, sink: str, mapping: FieldMapping) -> SinkTarget:
    """Return the target for redis://HOST:PORT/DATABASE/KEY?maxlen=N."""
    url, _, query = url.partition("?")
    options = dict(parse_qsl(query))
    max_length = options.pop("maxlen", "0")
    if options or not max_length.isdecimal():
        raise InvalidTarget("expected redis://HOST:PORT/DATABASE/KEY, optionally with ?maxlen=N")
    server, key = split_stream_url(url, InvalidTarget)
    return RedisStreamTarget(redis_address(server), key, sink, mapping, int(max_length))
