"""Merges the statistics, check reports and figures of several stores."""

from collections.abc import Sequence
from itertools import chain
from typing import TypeVar

from msgspec.structs import replace

from laurels.core.stats import CheckReport, Stats, StoreFigures

T = TypeVar("T")


def merged_stats(stats: Sequence[Stats]) -> Stats:
    """Return the sums over all stores. The time, the clock and the files are those of the default
    store, the first one. A member that is in several stores counts once for each."""
    return replace(
        stats[0],
        boards=sum([each.boards for each in stats]),
        members=sum([each.members for each in stats]),
        nbytes=sum([each.nbytes for each in stats]),
        log_nbytes=sum([each.log_nbytes for each in stats]),
        offset=sum([each.offset for each in stats]),
    )


def merged_reports(reports: Sequence[CheckReport]) -> CheckReport:
    """Return the sums over all stores."""
    return CheckReport(
        boards=sum([each.boards for each in reports]),
        rankings=sum([each.rankings for each in reports]),
        entries=sum([each.entries for each in reports]),
        offset=sum([each.offset for each in reports]),
        unverified=list(chain.from_iterable([each.unverified for each in reports])),
    )


def merged_figures(
    figures: Sequence[StoreFigures], answering: Sequence[tuple[str, bool]]
) -> StoreFigures:
    """Return the figures of all boards. Figures that are not about boards are those of the default
    store, the first one. `answering` says for each store whether it answers."""
    first = figures[0]
    if first.of_boards_only:
        answering = ()
    store, others = first.store, figures[1:]
    if store is not None:
        stores = [store, *[each.store for each in others if each.store is not None]]
        unread = sum([each.count for each in others if each.store is None])
        merged = merged_stats(stores)
        store = replace(merged, boards=merged.boards + unread)
    counts = [each.count if each.store is None else each.store.boards for each in figures]
    return replace(
        first,
        store=store,
        count=sum(counts),
        boards=_joined([each.boards for each in figures]),
        scopes=_joined([each.scopes for each in figures]),
        scopes_memory=_joined([each.scopes_memory for each in figures]),
        changes_lost=_joined([each.changes_lost for each in figures]),
        changes_used=_joined([each.changes_used for each in figures]),
        unsealed=_joined([each.unsealed for each in figures]),
        unpaid=_joined([each.unpaid for each in figures]),
        write_failures=sum([each.write_failures for each in figures]),
        writable=all(each.writable for each in figures),
        stores=answering,
    )


def _joined(parts: Sequence[Sequence[T]]) -> list[T]:
    return list(chain.from_iterable(parts))
