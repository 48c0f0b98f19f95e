"""A stream of NATS JetStream as the target of a sink.

Each change is a message whose `Nats-Msg-Id` is the change's id, so a message that is sent twice
within the stream's duplicate window is stored once. A page is delivered when every message has been
acknowledged.
"""

import asyncio
import re
from collections.abc import Sequence
from urllib.parse import urlsplit

from laurels.core.changes.answers import Change
from laurels.errors.sinks import InvalidTarget
from laurels.flows.jetstream_publisher import JetStreamPublisher

from .mapping import FieldMapping
from .target import SinkPage

LIMIT = 500
_FIELD = re.compile(r"\{(board|kind|member|labels\.[A-Za-z0-9_.-]+)\}")
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
        server = parts._replace(path="", query="", fragment="").geturl()
        self._publisher = JetStreamPublisher(server)
        self._mapping = mapping

    async def open(self) -> None:
        await self._publisher.connect()

    async def position(self, board: str) -> str | None:
        return None

    async def deliver(self, page: SinkPage) -> None:
        await self._publisher.connect()
        for changes in _rounds(page.changes):
            sends = [
                self._publisher.publish(self._subjects.subject(change), document, change.id)
                for change in changes
                if (document := self._mapping.encode(change)) is not None
            ]
            for answer in await asyncio.gather(*sends, return_exceptions=True):
                if isinstance(answer, BaseException):
                    raise answer

    async def reset(self, board: str, position: str | None) -> None:
        """Do nothing: the position is in the store."""

    async def close(self) -> None:
        await self._publisher.close()


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
