"""The commands `top`, `rank`, `needed` and `around`, which read rankings."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import typer
from msgspec import structs

import laurels
from laurels.cli.boards.scoping import Labels, parse_labels, scope_words

from .errors import Usage
from .option_groups import OptionGroup
from .options import (
    DEFAULT_URL,
    READING,
    AsJson,
    BoardName,
    MemberName,
    PageCursor,
    Url,
    WindowName,
    WithData,
)
from .ranking_options import RankingOptions
from .show import json_bytes, put_json, put_line, put_pairs, put_table
from .texts import Side, escaped, needed_words, numbers, rank_words

NOT_RANKED = 1
UNREACHABLE = 1


class PagingOptions(OptionGroup, frozen=True):
    """The part of a ranking to show."""

    limit: Annotated[
        int, typer.Option("--limit", "-n", help="Number of entries.", rich_help_panel=READING)
    ] = 10
    offset: Annotated[
        int, typer.Option("--offset", help="Number of entries to skip.", rich_help_panel=READING)
    ] = 0
    reverse: Annotated[
        bool,
        typer.Option("--reverse", help="Begin at the end of the ranking.", rich_help_panel=READING),
    ] = False
    after: PageCursor = None


def top(
    board: BoardName,
    ranking: RankingOptions,
    paging: PagingOptions,
    data: WithData = False,
    at: Url = DEFAULT_URL,
    json: AsJson = False,
) -> int:
    """Show the first entries of a ranking.

    \b
    Examples:
      laurels top gifts
      laurels top gifts --window month --period 2021-02 --limit 5
      laurels top gifts --offset 100 --json
      laurels top gifts --label room=42
      laurels top gifts --by room
    """
    arguments = ranking.arguments() | structs.asdict(paging)
    with laurels.open(at, create=False) as lb:
        page = lb.top(board, with_data=data, **arguments)
        definition = lb.get(board)
    if json:
        put_json(page)
    else:
        _put_page(definition, page, data=data)
        if page.next is not None and page.entries:
            put_line(f"next page: --after {page.next}")
    return 0


def rank(
    board: BoardName,
    members: Annotated[list[str], typer.Argument(metavar="MEMBER...", help="The members' ids.")],
    ranking: RankingOptions,
    to_rank: Annotated[
        int | None,
        typer.Option(
            "--to-rank",
            metavar="K",
            help="Show the gap to position K, and the value of one event that reaches it.",
            rich_help_panel=READING,
        ),
    ] = None,
    data: WithData = False,
    at: Url = DEFAULT_URL,
    json: AsJson = False,
) -> int:
    """Show the ranks of members.

    A single member is shown with its neighbours; several are also ranked among themselves. Exits
    with 1 if one of them is not ranked.

    \b
    Examples:
      laurels rank gifts alice
      laurels rank gifts alice --window week --to-rank 10
      laurels rank gifts alice bob carol
      laurels rank gifts alice --label zone=cn --label gender=f
    """
    arguments = ranking.arguments()
    if len(members) > 1:
        if to_rank is not None:
            raise Usage(f"expected one member with --to-rank, got {len(members):,}")
        return _rank_among(board, members, arguments, data=data, at=at, json=json)
    (member,) = members
    with laurels.open(at, create=False) as lb:
        standing = lb.standing(board, member, to_rank=to_rank, with_data=data, **arguments)
        definition = lb.get(board)
    if json:
        put_json(standing)
    elif standing is None:
        put_line(f"{escaped(member)} is not ranked")
    else:
        _put_card(definition, standing, data=data)
    return NOT_RANKED if standing is None else 0


def _rank_among(
    board: str,
    members: Sequence[str],
    arguments: Mapping[str, Any],
    *,
    data: bool,
    at: str,
    json: bool,
) -> int:
    with laurels.open(at, create=False) as lb:
        page = lb.standings(board, members, with_data=data, **arguments)
        definition = lb.get(board)
    ranked = {entry.member for entry in page.entries}
    absent = [member for member in dict.fromkeys(members) if member not in ranked]
    if json:
        put_json(
            {"entries": page.entries, "total": page.total, "as_of": page.as_of} | {"absent": absent}
        )
    else:
        _put_page(definition, page, data=data, places=True)
        if absent:
            put_line(f"not ranked: {', '.join(map(escaped, absent))}")
    return NOT_RANKED if absent else 0


def needed(
    board: BoardName,
    member: MemberName,
    rank: Annotated[
        int | None,
        typer.Argument(
            metavar="[RANK]",
            help="The position to reach. Default on a board with a head: its last one.",
        ),
    ] = None,
    window: WindowName = None,
    column: Annotated[
        str | None,
        typer.Option(
            "--column",
            metavar="NAME",
            help="The column to vary. Default: the board's first.",
            rich_help_panel=READING,
        ),
    ] = None,
    label: Labels = None,
    at: Url = DEFAULT_URL,
    json: AsJson = False,
) -> int:
    """Show the value of one event that takes a member to a position or better.

    The value is the least demanding one that suffices if this event is counted now, before any
    other. The member need not be ranked. Exits with 1 if no single event suffices.

    \b
    Examples:
      laurels needed gifts alice 10
      laurels needed gifts alice 10 --window day
      laurels needed race bob 3 --column seconds
      laurels needed gifts alice 1 --label room=42
      laurels needed millions alice
    """
    with laurels.open(at, create=False) as lb:
        need = lb.needed(
            board, member, rank, window=window, column=column, labels=parse_labels(label)
        )
    if json:
        put_json(need)
    elif need is None:
        place = "in the head" if rank is None else f"at rank {rank} or better"
        put_line(f"{escaped(member)} needs nothing: it is {place}")
    else:
        put_line(f"{escaped(member)} needs {needed_words(need)}")
    return UNREACHABLE if need is not None and need.unreachable else 0


def around(
    board: BoardName,
    member: MemberName,
    ranking: RankingOptions,
    radius: Annotated[
        int,
        typer.Option("--radius", "-r", help="Neighbours on each side.", rich_help_panel=READING),
    ] = 5,
    data: WithData = False,
    at: Url = DEFAULT_URL,
    json: AsJson = False,
) -> int:
    """Show a member's neighbours in the ranking.

    Exits with 1 if the member is not ranked.

    \b
    Examples:
      laurels around gifts alice
      laurels around gifts alice --radius 2 --window day
      laurels around gifts alice --label room=42
    """
    arguments = ranking.arguments()
    with laurels.open(at, create=False) as lb:
        page = lb.around(board, member, radius=radius, with_data=data, **arguments)
        definition = lb.get(board)
    if json:
        put_json(page)
    elif page is None:
        put_line(f"{escaped(member)} is not ranked")
    else:
        _put_page(definition, page, data=data, marked=member)
    return NOT_RANKED if page is None else 0


def _put_page(
    board: laurels.Board,
    page: laurels.Page,
    *,
    data: bool,
    places: bool = False,
    marked: str | None = None,
) -> None:
    columns: list[tuple[str, Side]] = [("place", "right")] if places else []
    columns += [("rank", "right"), (page.as_of.by or "member", "left")]
    columns += [(column.name, "right") for column in board.columns]
    columns += [("data", "left")] if data else []
    if marked is not None:
        columns.insert(0, ("", "left"))

    def cells(entry: laurels.Entry) -> list[str]:
        row = [str(entry.place)] if places else []
        rank = rank_words(entry.rank, entry.rank_low, entry.rank_high)
        row += [rank, entry.member, *numbers(entry.score)]
        row += [_data_text(entry.data)] if data else []
        if marked is not None:
            row.insert(0, ">" if entry.member == marked else "")
        return row

    put_table(
        columns,
        map(cells, page.entries),
        title=_title(board, page.as_of),
        foot=_foot(page),
    )


def _foot(page: laurels.Page) -> str:
    members = f"{page.total:,} members"
    return members if page.certain is None else f"{members}, of which {page.certain:,} are listed"


def _put_card(board: laurels.Board, standing: laurels.Standing, *, data: bool) -> None:
    rows = [
        (standing.as_of.by or "member", standing.member),
        ("rank", _rank_line(standing)),
        *zip([column.name for column in board.columns], numbers(standing.score), strict=True),
    ]
    for name, other in (("above", standing.above), ("below", standing.below)):
        if other is not None:
            ahead = "ahead" if name == "above" else "behind"
            gap = ", ".join(numbers(other.gap))
            score = ", ".join(numbers(other.score))
            rows.append((name, f"{other.rank}. {other.member} with {score}, {gap} {ahead}"))
    if standing.to_rank is not None:
        gap = ", ".join(numbers(standing.to_rank.gap))
        rows.append((f"to rank {standing.to_rank.rank}", gap))
    if standing.needed is not None:
        rows.append(("needs", f"{needed_words(standing.needed)}, in one event"))
    if data:
        rows.append(("data", _data_text(standing.data)))
    put_pairs(rows, title=_title(board, standing.as_of))


def _rank_line(standing: laurels.Standing) -> str:
    rank = rank_words(standing.rank, standing.rank_low, standing.rank_high)
    comma = "" if standing.exact else ","
    return f"{rank}{comma} of {standing.total:,} (top {standing.percent:.4g} %)"


def _data_text(data: object) -> str:
    return "" if data is None else json_bytes(data).decode()


def _title(board: laurels.Board, as_of: laurels.AsOf) -> str:
    period = f" {as_of.period}" if as_of.period else ""
    return (
        f"{board.title or board.name}, {as_of.window}{period}{scope_words(as_of.labels, as_of.by)}"
    )
