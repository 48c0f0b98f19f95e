"""`watch`: a live view of a board."""

import time
from collections.abc import Iterator
from contextlib import closing
from functools import partial
from typing import Annotated

import msgspec
import typer

import laurels
from laurels import config
from laurels.cli.boards.scoping import By, Labels, parse_labels
from laurels.server.live.frames import MemberChange
from laurels.stores.http import feed
from laurels.stores.http.calls import definition

from .errors import Usage
from .following import followed
from .options import DEFAULT_URL, READING, AsJson, BoardName, Url, WindowName
from .ranking import Ranking
from .show import complain_of, put_bytes, put_line
from .texts import escaped, moved_by, needed_words, numbers, rank_words

_member_change = msgspec.json.Decoder(MemberChange).decode


def watch(
    board: BoardName,
    window: WindowName = None,
    limit: Annotated[
        int, typer.Option("--limit", "-n", help="Number of entries.", rich_help_panel=READING)
    ] = 10,
    member: Annotated[
        str | None,
        typer.Option(
            "--member", "-m", metavar="MEMBER", help="Watch one member.", rich_help_panel=READING
        ),
    ] = None,
    to_rank: Annotated[
        int | None,
        typer.Option(
            "--to-rank",
            metavar="K",
            min=1,
            help="With --member: show the value of one event that reaches position K.",
            rich_help_panel=READING,
        ),
    ] = None,
    label: Labels = None,
    by: By = None,
    at: Url = DEFAULT_URL,
    json: AsJson = False,
) -> int:
    """Watch a board of a server or an index server live, until Ctrl-C.

    After a broken connection the feed continues where it stopped. With --json every event is one
    line of JSON.

    \b
    Examples:
      laurels watch gifts --at http://127.0.0.1:8080
      laurels watch gifts --window day --member alice --at http://127.0.0.1:8080
      laurels watch gifts --member alice --to-rank 10 --at http://127.0.0.1:8080
      laurels watch gifts --label room=42 --at http://127.0.0.1:8080
    """
    if to_rank is not None and member is None:
        raise Usage("expected --member with --to-rank")
    labels = parse_labels(label)
    if config.is_direct(at):
        with followed(at) as boards:
            events = boards.events(board, window, limit, member, by, labels, to_rank)
            _put(boards.get(board), events, member, json=json)
        return 0
    if not config.is_remote(at):
        raise Usage("expected --at http://... or redis://..., since a folder cannot be watched")
    with closing(config.remote_wire(at)) as wire:
        connect = partial(feed.live, board, window=window, limit=limit, member=member)
        connect = partial(connect, to_rank=to_rank, by=by, labels=labels)
        events = feed.watched(wire, lambda last: connect(after=last), time.sleep, lost=complain_of)
        _put(wire.answer(definition(board)), events, member, json=json)
    return 0


def _put(
    definition: laurels.Board, events: Iterator[feed.StreamEvent], member: str | None, *, json: bool
) -> None:
    if json:
        _put_events(events)
    elif member is not None:
        _put_standings(events)
    else:
        _put_rankings(definition, events)


def _put_events(events: Iterator[feed.StreamEvent]) -> None:
    for event in events:
        put_bytes(
            b'{"event":"%b","id":"%b","data":%b}\n'
            % (event.kind.encode(), event.id.encode(), event.data)
        )


def _put_standings(events: Iterator[feed.StreamEvent]) -> None:
    for event in events:
        put_line(standing_line(_member_change(event.data)))


def standing_line(change: MemberChange) -> str:
    """Return the standing of a member as one line."""
    needs = [] if change.needed is None else [f"needs {needed_words(change.needed)}"]
    if change.rank is None or change.score is None:
        return "  ".join([f"{escaped(change.member)} is not ranked", *needs])
    is_exact = change.rank_low == change.rank_high
    rank = rank_words(change.rank, change.rank_low, change.rank_high)
    place = f"{rank}." if is_exact else f"{rank},"
    parts = [f"{place} of {change.total:,}", ", ".join(numbers(change.score))]
    if change.previous_rank is not None and change.previous_rank != change.rank:
        parts.append(moved_by(change.previous_rank - change.rank))
    if change.overtaken_by is not None:
        parts.append(f"overtaken by {escaped(change.overtaken_by)}")
    return f"{escaped(change.member)}: {'  '.join(parts + needs)}"


def _put_rankings(board: laurels.Board, events: Iterator[feed.StreamEvent]) -> None:
    ranking = Ranking()
    from .screen import picture, screen  # noqa: PLC0415 (drawing takes long to import)

    with screen() as show:
        for event in events:
            ranking.apply(event)
            show(picture(board, ranking))
