"""Erasures that are not complete, as a snapshot stores them. Pure."""

from msgspec import Struct


class PendingErasure(Struct, frozen=True, array_like=True):
    """An erasure that is not complete: the member, the token that takes its place, and the time at
    which it began."""

    member: bytes
    token: str
    began_ms: int
