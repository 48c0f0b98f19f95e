"""The output of `sink list` and `source list`."""

from collections.abc import Sequence

from laurels.cli.show import put_json, put_table
from laurels.flows.listing import ListedFlow

BOARDS_SHOWN = 3


def put_listed(flows: Sequence[ListedFlow], kind: str, *, json: bool) -> None:
    """Print sinks or sources with their boards, or all of them as JSON."""
    if json:
        put_json(list(flows))
        return
    put_table([(kind, "left"), ("boards", "left")], [(each.name, _names(each)) for each in flows])


def _names(flow: ListedFlow) -> str:
    more = len(flow.boards) - BOARDS_SHOWN
    names = ", ".join(flow.boards[:BOARDS_SHOWN])
    return f"{names} and {more:,} more" if more > 0 else names
