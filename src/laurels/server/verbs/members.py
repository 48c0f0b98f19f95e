"""Writes of member data, removals, and entries that replace others."""

from typing import Any

import msgspec
from msgspec import Struct

from laurels.core.mending import RankingEntries
from laurels.server.requests.context import RequestContext
from laurels.server.routing.route import NO_CONTENT, NoQuery, Routes
from laurels.wire import requests

ROUTES = Routes()
MEND_VALUES, MEND_BYTES = 100_000, 8 << 20
"""The most values, and the most bytes, of a body with entries. Such a body is decoded at once;
100,000 decimals take about 30 ms. An entry of four columns has 13 values."""


class DataFields(Struct):
    """A member and its new data. With `before`, the stored data has to be equal to `before`."""

    member: str
    data: Any
    before: Any = msgspec.UNSET


@ROUTES.row("PUT", "/v1/boards/{board}/data", "write", body=DataFields, status=NO_CONTENT)
async def set_data(context: RequestContext, _: NoQuery) -> None:
    """Set the data of a member, JSON of up to 1 KiB: `{"member": …, "data": …}`; null removes it.
    With `before`, the data is set only if the member has that data now (null: none); otherwise the
    answer is 409."""
    document = requests.document(context.raw, context.media_type)
    member, data, before = requests.fields(document, "member", "data", optional=("before",))
    followed = requests.plain(before) if "before" in document else msgspec.UNSET
    with context.server.admission.writing():
        await context.lb.set_data(context.board, member, requests.plain(data), before=followed)


class Removed(Struct, frozen=True):
    """Whether the member was in any ranking before it was removed."""

    removed: bool


class MemberFields(Struct):
    """A member."""

    member: str


@ROUTES.row(
    "POST",
    "/v1/boards/{board}/remove",
    "write",
    body=MemberFields,
    returns=Removed,
    audited=True,
)
async def remove(context: RequestContext, _: NoQuery) -> object:
    """Remove a member, `{"member": …}`, from every ranking of a board, and remove its data."""
    (member,) = requests.fields(requests.document(context.raw, context.media_type), "member")
    with context.server.admission.writing():
        return Removed(await context.lb.remove(context.board, member))


class MendFields(Struct, forbid_unknown_fields=True):
    """Entries that replace entries of rankings. In event time, the board's time becomes `at_ms` if
    that is later."""

    rankings: list[RankingEntries]
    at_ms: int | None = None


class Mended(Struct, frozen=True):
    """How many entries were replaced."""

    mended: int


@ROUTES.row(
    "POST",
    "/v1/boards/{board}/mend",
    "admin",
    body=MendFields,
    returns=Mended,
    most_body=MEND_BYTES,
    audited=True,
)
async def mend(context: RequestContext, _: NoQuery) -> object:
    """Replace whole entries of rankings, including the times that decide between equal scores. With
    `expected`, an entry is replaced only if the current entry is the expected one. This is for
    entries that were read from another system, such as a ledger. An event counts in all windows,
    but a replaced entry changes only its own ranking."""
    read = await context.server.decoder.document(context.raw, context.media_type, MEND_VALUES)
    fields = requests.typed(read, MendFields)
    with context.server.admission.writing():
        return Mended(await context.lb.mend(context.board, fields.rankings, at=fields.at_ms))
