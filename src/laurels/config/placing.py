"""Opens several stores as one: boards are placed in them by patterns of their names."""

import asyncio
import os
import time
from collections.abc import Callable, Mapping
from itertools import count

from msgspec import Struct
from msgspec.structs import replace

from laurels.api.leaderboards import Leaderboards
from laurels.errors import InvalidClock, UnknownUrl
from laurels.errors.index_server import IndexUnavailable
from laurels.flows.copying.copying import end_of_changes
from laurels.flows.copying.sinks import move_sinks
from laurels.stores.answers.answer import CacheSettings
from laurels.stores.base import Backing, PortableStore
from laurels.stores.redis.connection.urls import redis_address
from laurels.stores.routed.placed import OpenedStore, PlacedStore
from laurels.stores.routed.placement import Placement
from laurels.stores.routed.routes import BoardRoutes
from laurels.stores.routed.store import RoutedStore
from laurels.timeline.clock import Clock

from .backing import servable
from .index_server import DEFAULT_CACHE, direct_here
from .local import connect
from .urls import folder_path, is_direct, is_remote, without_login


class StoreList(Struct, frozen=True):
    """The URLs of different stores, the default store first, and the patterns in their order, each
    with the index of its store in `urls`."""

    urls: list[str]
    patterns: list[tuple[str, int]]


def ensure_placeable(url: str) -> None:
    """Raise UnknownUrl unless boards can be placed in the store of a URL. The message does not
    repeat the URL, which may contain a password."""
    if is_remote(url):
        raise UnknownUrl("expected a folder, memory: or redis://host:port, got a service")
    if is_direct(url):
        redis_address(url)
    elif not url or "://" in url:
        raise UnknownUrl("expected a folder, memory: or redis://host:port, got another URL")
    elif url != "memory:":
        folder_path(url)


def store_list(url: str, placement: Mapping[str, str]) -> StoreList:
    """Return the stores of a placement. URLs that differ only in their form name one store."""
    urls, patterns = [url], list[tuple[str, int]]()
    numbers = {_identity_of(url): 0}
    for pattern, each in placement.items():
        number = numbers.setdefault(_identity_of(each), len(urls))
        if number == len(urls):
            urls.append(each)
        patterns.append((pattern, number))
    return StoreList(urls, patterns)


def _identity_of(url: str) -> str:
    """Return a text that is equal for URLs of the same store, whatever their credentials."""
    if is_direct(url):
        address = redis_address(url)
        hosts = tuple(sorted(address.hosts, key=str))
        return f"{replace(address, hosts=hosts)} {address.prefix}"
    return url if url == "memory:" else os.path.realpath(folder_path(url))


async def placed(
    url: str,
    placement: Mapping[str, str],
    clock: str | Clock | None = None,
    *,
    max_clock_step: str | int | None,
    cache: CacheSettings = DEFAULT_CACHE,
    warn: Callable[[str], None],
    ledgers: Mapping[str, str] = {},
) -> Backing:
    """Open the stores of a server on the running event loop, and return them as one. The default
    store has to answer. Any other index server that does not answer is opened later, as soon as it
    answers. `warn` is called with each sentence for the operator. `ledgers` are the URLs of ledgers
    by name. Raises the errors of `servable`, InvalidClock if the stores do not have the same kind
    of clock, and UnknownStore if a board was moved to a store that is not among them."""
    stores = store_list(url, placement)
    if len(stores.urls) == 1:
        return await _single(
            url, clock, max_clock_step=max_clock_step, cache=cache, warn=warn, ledgers=ledgers
        )
    moment = count(1).__next__
    share = replace(cache, max_bytes=cache.max_bytes // len(stores.urls))
    backing = await servable(
        url,
        clock,
        max_clock_step=max_clock_step,
        cache=share,
        warn=warn,
        moment=moment,
        ledgers=ledgers,
    )
    opened = [
        PlacedStore(
            without_login(url),
            _identity_of(url),
            OpenedStore(backing.store, backing.answers),
            is_watched=is_direct(url),
        )
    ]
    try:
        opening = _Opening(
            clock if isinstance(clock, Clock) else None,
            backing.store.copies.clock().event_time,
            max_clock_step,
            share,
            moment,
            ledgers,
        )
        for each in stores.urls[1:]:
            opened.append(await _placed(each, opening))
        routed = RoutedStore(
            opened,
            Placement(stores.patterns),
            moment,
            warn,
            BoardRoutes(backing.notes),
            time.monotonic,
            _move_sinks,
        )
        await routed.prepare()
    except BaseException:
        for placed_store in opened:
            if placed_store.opened is not None:
                await placed_store.opened.store.close_async()
        raise
    return replace(backing, store=routed, answers=routed.answers, mover=routed)


async def _single(
    url: str,
    clock: str | Clock | None,
    *,
    max_clock_step: str | int | None,
    cache: CacheSettings,
    warn: Callable[[str], None],
    ledgers: Mapping[str, str],
) -> Backing:
    """Open the only store of a server. Raises UnknownStore if boards were moved away from it."""
    backing = await servable(
        url, clock, max_clock_step=max_clock_step, cache=cache, warn=warn, ledgers=ledgers
    )
    try:
        routes = BoardRoutes(backing.notes)
        await asyncio.to_thread(routes.load)
        routes.ensure_in([_identity_of(url)])
    except BaseException:
        await backing.store.close_async()
        raise
    return backing


def _move_sinks(source: PortableStore, target: PortableStore, board: str) -> list[str]:
    end = end_of_changes(target.copies.origin(board))
    return move_sinks(Leaderboards(source), Leaderboards(target), board, end)


class _Opening(Struct, frozen=True):
    """The settings with which the stores other than the default store are opened."""

    clock: Clock | None
    event_time: bool
    max_clock_step: str | int | None
    cache: CacheSettings
    moment: Callable[[], int]
    ledgers: Mapping[str, str]

    async def open(self, url: str) -> OpenedStore:
        """Open a store. Raises InvalidClock if it has another kind of clock."""
        opened = await self._opened(url)
        if opened.store.copies.clock().event_time == self.event_time:
            return opened
        await opened.store.close_async()
        kinds = ("event time", "the system clock")
        own, default = kinds if not self.event_time else kinds[::-1]
        raise InvalidClock(
            f"the boards in {without_login(url)} use {own}, those of the default store {default}"
        )

    async def _opened(self, url: str) -> OpenedStore:
        from laurels.stores.local.answers import LocalAnswers  # noqa: PLC0415

        clock = self.clock or ("event" if self.event_time else None)
        if is_direct(url):
            direct = await direct_here(
                url,
                clock,
                create=True,
                max_clock_step=self.max_clock_step,
                cache=self.cache,
                is_session=False,
                moment=self.moment,
                ledgers=self.ledgers,
            )
            return OpenedStore(direct, direct.answers)
        service = await asyncio.to_thread(
            connect, url, clock, create=True, max_clock_step=self.max_clock_step
        )
        return OpenedStore(service, LocalAnswers(service, self.cache.max_bytes))


async def _placed(url: str, opening: _Opening) -> PlacedStore:
    """Open a store other than the default store, or note that it does not answer."""
    name, identity, is_server = without_login(url), _identity_of(url), is_direct(url)
    try:
        opened = await opening.open(url)
    except IndexUnavailable as error:
        return PlacedStore(
            name,
            identity,
            None,
            is_watched=True,
            open_store=lambda: opening.open(url),
            failure=error,
        )
    return PlacedStore(name, identity, opened, is_watched=is_server)
