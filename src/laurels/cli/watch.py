"""`watch`: a board, live."""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from functools import partial
from typing import Annotated

import msgspec
import typer
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.text import Text

import laurels
from laurels import config
from laurels.cli.boards.scoping import By, Labels, parse_labels, scope_words
from laurels.server.live import FullList, ListChange, MemberChange
from laurels.stores.http import feed
from laurels.stores.http.calls import definition

from .failures import Usage
from .following import followed
from .options import DEFAULT_URL, READING, AsJson, BoardName, Url, WindowName
from .show import (
    Side,
    complain_of,
    escaped,
    harmless,
    moved_by,
    numbers,
    put_bytes,
    put_line,
    table_of,
)

_REFRESHES = 10
"""Of the screen, a second."""

_top = msgspec.json.Decoder(FullList).decode
_change = msgspec.json.Decoder(ListChange).decode
_member_change = msgspec.json.Decoder(MemberChange).decode


class Ranking:
    """The watched list as of the newest event, and how its members got to their ranks."""

    def __init__(self) -> None:
        self.total = 0
        self.as_of: laurels.AsOf | None = None
        self._entries: dict[str, laurels.Entry] = {}
        self._marks: dict[str, str] = {}

    @property
    def entries(self) -> list[laurels.Entry]:
        return list(self._entries.values())

    def mark(self, member: str) -> str:
        """Return how a member came to its rank: `▲2`, `▼1`, `new` or nothing."""
        return self._marks.get(member, "")

    def take(self, event: feed.StreamEvent) -> None:
        """Apply an event."""
        if event.kind == "top":
            top = _top(event.data)
            self._marks = {}
            self._become(top.entries, top.total, top.as_of)
        elif event.kind == "change":
            self._change(_change(event.data))

    def _change(self, change: ListChange) -> None:
        entries = self._entries
        for entry in [*change.entered, *change.scored]:
            entries[entry.member] = entry
        for moved in change.moved:
            entries[moved.member] = laurels.Entry(moved.member, moved.rank, moved.score)
        self._marks = {entry.member: "new" for entry in change.entered} | {
            moved.member: moved_by(moved.previous_rank - moved.rank) for moved in change.moved
        }
        self._become([entries[member] for member in change.order], change.total, change.as_of)

    def _become(self, entries: Sequence[laurels.Entry], total: int, as_of: laurels.AsOf) -> None:
        self._entries = {entry.member: entry for entry in entries}
        self.total, self.as_of = total, as_of


def watch(
    board: BoardName,
    window: WindowName = None,
    limit: Annotated[
        int, typer.Option("--limit", "-n", help="How many entries.", rich_help_panel=READING)
    ] = 10,
    member: Annotated[
        str | None,
        typer.Option(
            "--member", "-m", metavar="MEMBER", help="Watch one member.", rich_help_panel=READING
        ),
    ] = None,
    label: Labels = None,
    by: By = None,
    at: Url = DEFAULT_URL,
    json: AsJson = False,
) -> int:
    """Watch a board of a server or an index server live, until Ctrl-C.

    A broken connection is taken up again where it was. With --json every event is a line.

    \b
    Examples:
      laurels watch gifts --at http://127.0.0.1:8080
      laurels watch gifts --window day --member alice --at http://127.0.0.1:8080
      laurels watch gifts --label room=42 --at http://127.0.0.1:8080
    """
    labels = parse_labels(label)
    if config.is_direct(at):
        with followed(at) as boards:
            events = boards.events(board, window, limit, member, by, labels)
            _put(boards.get(board), events, member, json=json)
        return 0
    if not config.is_remote(at):
        raise Usage("a board is watched at a server: give --at http://... or redis://...")
    with closing(config.remote_wire(at)) as wire:
        connect = partial(
            feed.live, board, window=window, limit=limit, member=member, by=by, labels=labels
        )
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
    """Return the standing of a member on one line."""
    if change.rank is None or change.score is None:
        return f"{escaped(change.member)} is not ranked"
    parts = [f"{change.rank}. of {change.total:,}", ", ".join(numbers(change.score))]
    if change.previous_rank is not None and change.previous_rank != change.rank:
        parts.append(moved_by(change.previous_rank - change.rank))
    if change.overtaken_by is not None:
        parts.append(f"overtaken by {escaped(change.overtaken_by)}")
    return f"{escaped(change.member)}: {'  '.join(parts)}"


def _put_rankings(board: laurels.Board, events: Iterator[feed.StreamEvent]) -> None:
    ranking = Ranking()
    with _screen() as show:
        for event in events:
            ranking.take(event)
            show(picture(board, ranking))


class _screen:  # noqa: N801 (it is used as a function)
    """Draw each picture in place of the last; print them one after another without a terminal."""

    def __init__(self) -> None:
        self._console = Console(highlight=False)
        self._live = Live(console=self._console, refresh_per_second=_REFRESHES)

    def __enter__(self) -> Callable[[RenderableType], None]:
        if not self._console.is_terminal:
            return self._console.print
        self._live.start()
        return self._live.update

    def __exit__(self, *_: object) -> None:
        self._live.stop()


def picture(board: laurels.Board, ranking: Ranking) -> RenderableType:
    """Return a ranking as a table, with moves marked."""
    as_of = ranking.as_of
    who = as_of.by if as_of is not None and as_of.by is not None else "member"
    columns: list[tuple[str, Side]] = [("rank", "right"), ("", "left"), (who, "left")]
    columns += [(column.name, "right") for column in board.columns]
    rows = [
        [str(entry.rank), ranking.mark(entry.member), entry.member, *numbers(entry.score)]
        for entry in ranking.entries
    ]
    table = table_of(columns, rows)
    title = board.title or board.name
    if as_of is not None:
        title = f"{title}, {as_of.window}{f' {as_of.period}' if as_of.period else ''}"
        title += scope_words(as_of.labels, as_of.by)
    return Group(
        Text(harmless(title), style="bold"), table, Text(f"{ranking.total:,} members", style="dim")
    )
