"""Parses the arguments that imports of files and imports of sorted sets have in common."""

from collections.abc import Sequence

import laurels
from laurels.cli.boards.scoping import parse_labels
from laurels.cli.errors import Usage
from laurels.cli.times import time_reader
from laurels.errors import InvalidAt, UnknownBoard, UnknownLabel
from laurels.model.labels import label_value
from laurels.timeline.zones import Zone, zone

from .reading import LabelSource

MAX_BATCH = 100_000
"The maximum number of lines in one commit: the largest batch that a board accepts."


def ensure_batch(batch: int) -> None:
    if not 1 <= batch <= MAX_BATCH:
        raise Usage(f"expected an integer from 1 to {MAX_BATCH:,} for --batch, got {batch:,}")


def board_named(lb: laurels.Leaderboards, name: str, *, create: bool) -> laurels.Board:
    """Return the board to import into. Create it if it does not exist and `create` is true."""
    try:
        return lb.get(name)
    except UnknownBoard:
        if not create:
            raise
        return lb.create(laurels.Board(name))


def zone_named(name: str) -> Zone:
    try:
        return zone(name)
    except KeyError:
        raise Usage(f"expected an IANA time zone for --tz, got {name!r}") from None


def instant(option: str, text: str, tz: str) -> int:
    """Parse a time on the command line, in ISO 8601."""
    try:
        return time_reader("iso", zone_named(tz))(text)
    except InvalidAt as error:
        raise Usage(f"{option}: {error.what}") from error


def label_sources(board: laurels.Board, texts: Sequence[str] | None) -> tuple[LabelSource, ...]:
    """Parse NAME=VALUE and NAME=@COLUMN, and return the sources of all labels of a board.

    Raises Usage, InvalidLabel, and UnknownLabel for a label that the board does not have.
    """
    arguments = parse_labels(texts)
    names = board.rules().labels
    for name in arguments:
        if name not in names:
            labels = f"a label of the board ({', '.join(names)})" if names else "no labels"
            raise UnknownLabel(f"expected {labels} for --label, got {name!r}")
    return tuple([_label_source(name, arguments.get(name)) for name in names])


def constant_labels(board: laurels.Board, texts: Sequence[str] | None) -> dict[str, str]:
    """Return the labels for all members of a sorted set.

    Raises the errors of `label_sources`, and Usage for NAME=@COLUMN.
    """
    sources = [
        each for each in label_sources(board, texts) if each.explicit or each.value is not None
    ]
    for each in sources:
        if each.value is None:
            raise Usage(f"--label {each.label}=@{each.column}: a sorted set has no columns")
    return {each.label: each.value for each in sources if each.value is not None}


def _label_source(name: str, argument: str | None) -> LabelSource:
    if argument is None:
        return LabelSource(name, column=name)
    if argument.startswith("@") and not argument.startswith("@@"):
        if argument == "@":
            raise Usage(f"expected --label {name}=@COLUMN, got no column")
        return LabelSource(name, column=argument[1:], explicit=True)
    return LabelSource(
        name, label_value(name, argument.removeprefix("@") if argument[:2] == "@@" else argument)
    )
