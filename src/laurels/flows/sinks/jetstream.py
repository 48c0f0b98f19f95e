"""A stream of NATS JetStream as the target of a sink.

Each change is a message whose `Nats-Msg-Id` is the change's id, so a message that is sent twice
within the stream's duplicate window is stored once. A page is delivered when every message has been
acknowledged.
"""

import asyncio
import re
from collections.abc import Sequence
from contextlib import suppress
from typing import Any
from urllib.parse import urlsplit

from laurels.core.changes.answers import Change
from laurels.errors.sinks import InvalidTarget, MissingDriver, TargetRefused, TargetUnavailable

from .mapping import FieldMapping
from .target import SinkPage

LIMIT = 500
CONNECT_SECONDS, ANSWER_SECONDS = 5.0, 10.0
_FIELD = re.compile(r"\{(board|kind|member|labels\.[A-Za-z0-9_.-]+)\}")
_ACCOUNT_FULL = 10_002
"""JetStream's code for an account at its limits. The error has the status 400, and no longer
occurs once messages are removed."""
_UNSAFE = re.compile(r"[^A-Za-z0-9_-]")


class SubjectTemplate:
    """A template for the subjects of changes, such as `gifts.{board}.{member}`. Bytes that a token
    of a subject cannot contain are written as `%` and two hexadecimal digits."""

    def __init__(self, text: str) -> None:
        plain = _FIELD.sub("x", text)
        if not re.fullmatch(r"[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*", plain):
            raise InvalidTarget(
                "expected a subject of letters, digits, `_` and `-` between dots, with {board}, "
                f"{{kind}}, {{member}} or {{labels.NAME}}, got {text!r}"
            )
        self._text = text

    def subject(self, change: Change) -> str:
        """Return the subject that a change is sent to."""

        def value(field: re.Match[str]) -> str:
            name = field[1]
            if name.startswith("labels."):
                return _token(change.labels.get(name.removeprefix("labels.")))
            return _token(getattr(change, name))

        return _FIELD.sub(value, self._text)


def _token(text: str | None) -> str:
    if not text:
        return "_"
    return _UNSAFE.sub(lambda c: "".join([f"%{byte:02X}" for byte in c[0].encode()]), text)


class JetStreamTarget:
    """Publishes each change to a subject of a stream."""

    keeps_positions = False
    holds_state = False
    limit = LIMIT

    def __init__(self, url: str, mapping: FieldMapping) -> None:
        parts = urlsplit(url)
        if "@" in parts.path:  # an unescaped '/' has moved the end of the password into the path
            raise InvalidTarget("expected '/' in a user name or password to be written as %2F")
        self._subjects = SubjectTemplate(parts.path.lstrip("/"))
        self._server = parts._replace(path="", query="", fragment="").geturl()
        self._mapping = mapping
        self._client: Any = None

    async def open(self) -> None:
        await self._connected()

    async def position(self, board: str) -> str | None:
        return None

    async def deliver(self, page: SinkPage) -> None:
        stream = (await self._connected()).jetstream(timeout=ANSWER_SECONDS)
        for changes in _rounds(page.changes):
            sends = [
                stream.publish(
                    self._subjects.subject(change),
                    document,
                    headers={"Nats-Msg-Id": change.id.encode("unicode_escape").decode()},
                )
                for change in changes
                if (document := self._mapping.encode(change)) is not None
            ]
            for answer in await asyncio.gather(*sends, return_exceptions=True):
                if isinstance(answer, BaseException):
                    raise _target_error(answer) from answer

    async def reset(self, board: str, position: str | None) -> None:
        """Do nothing: the position is in the store."""

    async def close(self) -> None:
        """Disconnect; the wait for a server that accepts no more bytes is bounded."""
        client, self._client = self._client, None
        if client is not None:
            with suppress(TimeoutError):
                async with asyncio.timeout(ANSWER_SECONDS):
                    await client.close()

    async def _connected(self) -> Any:
        if self._client is not None and self._client.is_connected:
            return self._client
        await self.close()
        try:
            import nats  # noqa: PLC0415 (an optional package)
        except ModuleNotFoundError as error:
            raise MissingDriver("nats-py is not installed") from error
        try:
            self._client = await nats.connect(
                self._server,
                allow_reconnect=False,
                max_reconnect_attempts=1,  # otherwise a failure is reported only after two minutes
                reconnect_time_wait=0,
                connect_timeout=CONNECT_SECONDS,
                error_cb=_ignore,
            )
        except (nats.errors.Error, OSError, TimeoutError) as error:
            raise TargetUnavailable(f"{self._address()} does not answer: {error}") from error
        return self._client

    def _address(self) -> str:
        """Return the address of the server without a password."""
        return self._server.rsplit("@", 1)[-1]


def _rounds(changes: Sequence[Change]) -> list[list[Change]]:
    """Divide changes into rounds in which each member occurs at most once. The messages of a round
    are sent together, and the next round is sent when all are acknowledged. So the messages of a
    member stay in order, even if some are sent again."""
    rounds: list[list[Change]] = []
    counts: dict[str | None, int] = {}
    for change in changes:
        number = counts.get(change.member, 0)
        counts[change.member] = number + 1
        if number == len(rounds):
            rounds.append([])
        rounds[number].append(change)
    return rounds


async def _ignore(_: Exception) -> None:
    """Ignore an error that the client reports here, since the failed call raises it as well."""


def _target_error(error: BaseException) -> Exception:
    """Translate an error of the client into the corresponding error of a target."""
    from nats.errors import MaxPayloadError  # noqa: PLC0415
    from nats.js.errors import APIError, NoStreamResponseError  # noqa: PLC0415

    if isinstance(error, NoStreamResponseError):
        return TargetUnavailable("no stream receives the subject, or JetStream does not answer")
    if isinstance(error, MaxPayloadError):
        return TargetRefused("a message is longer than the server's max_payload")
    if isinstance(error, APIError) and error.err_code == _ACCOUNT_FULL:
        return TargetUnavailable("the account has no room for more messages")
    if isinstance(error, APIError) and error.code is not None and 400 <= error.code < 500:
        return TargetRefused(f"JetStream refused a message: {error.description}")
    return TargetUnavailable(f"JetStream did not acknowledge a message: {error!r}")
