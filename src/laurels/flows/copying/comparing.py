"""Compare a copied board with its source."""

from collections.abc import Iterable, Mapping

from msgspec import Struct

from laurels.core.changes.answers import SINK_PREFIX
from laurels.core.contents import EventIds, MemberValues, Origin, Piece, RankingRows
from laurels.core.season_pieces import PayoutRows, SealedShare
from laurels.model.board import Board
from laurels.stores.board_copies import BoardContents

from .comparing_seasons import SeasonContents, SeasonSide, season_differences

ATTEMPTS = 3
"""The maximum number of comparisons. A difference is checked again, since a period or step may have
ended between the reads of the two sides."""

Name = tuple[str, str, int, str]
"""A structure of a board: its kind (`ranking` or `tally`), window, instance and scope."""


class CopyCheck(Struct, frozen=True):
    """The result of a comparison: the numbers of items compared, and texts that describe the
    differences and what was not compared."""

    rankings: int
    entries: int
    tallies: int
    ids: int
    data: int
    positions: int
    sealed: int = 0
    payouts: int = 0
    differences: list[str] = []
    not_compared: list[str] = []


class _Contents(Struct):
    """The contents of a board in one store. `rows` has for each structure the number of its rows
    and the sum of the rows' hashes."""

    origin: Origin
    rows: dict[Name, tuple[int, int]]
    ids: dict[bytes, int]
    data: dict[bytes, bytes]
    seasons: SeasonContents


def compare(source: BoardContents, target: BoardContents, board: str) -> CopyCheck:
    """Compare a board in two stores, and return the result."""
    for _ in range(ATTEMPTS - 1):
        check = _compare_contents(_contents(source, board), _contents(target, board))
        if not check.differences:
            return check
    return _compare_contents(_contents(source, board), _contents(target, board))


def _contents(store: BoardContents, board: str) -> _Contents:
    contents = _Contents(store.origin(board), {}, {}, {}, SeasonContents())
    for piece in store.pieces(board):
        _add(contents, piece)
    return contents


def _add(contents: _Contents, piece: Piece) -> None:
    match piece:
        case RankingRows():
            name = (
                "tally" if piece.is_tally else "ranking",
                piece.window,
                piece.instance,
                piece.scope,
            )
            count, total = contents.rows.get(name, (0, 0))
            hashes = map(hash, zip(piece.names(), *piece.words(), strict=True))
            contents.rows[name] = count + piece.size, total + sum(hashes)
        case EventIds(groups):
            contents.ids |= {key: accepted_ms for accepted_ms, keys in groups for key in keys}
        case MemberValues(items):
            contents.data |= items
        case SealedShare() | PayoutRows():
            contents.seasons.add(piece)


def _compare_contents(source: _Contents, target: _Contents) -> CopyCheck:
    rules = Board.from_json(source.origin.definition).rules()
    changed = {
        window
        for window in rules.refreshed
        if source.origin.shown.get(window) != target.origin.shown.get(window)
    }
    rankings = [name for name in source.rows if name[0] == "ranking" and name[1] not in changed]
    since_ms = max(source.origin.now_ms, target.origin.now_ms) - rules.dedupe_ms
    ids = [_accepted_since(each.ids, since_ms) for each in (source, target)]
    differences = [
        *_origin_differences(source.origin, target.origin),
        *_row_differences(source, target, changed),
        *_count_difference("event ids", ids[0], ids[1]),
        *_count_difference("member data", source.data, target.data),
        *season_differences(
            SeasonSide("source", source.origin, source.seasons),
            SeasonSide("copy", target.origin, target.seasons),
        ),
    ]
    return CopyCheck(
        rankings=len(rankings),
        entries=sum(source.rows[name][0] for name in rankings),
        tallies=sum(name[0] == "tally" for name in source.rows),
        ids=len(ids[0]),
        data=len(source.data),
        positions=len(source.origin.positions),
        sealed=len(source.seasons.periods),
        payouts=len(source.seasons.payouts),
        differences=differences,
        not_compared=[
            f"the ranking shown for the window {window}: only one side was refreshed after the copy"
            for window in sorted(changed)
        ],
    )


def _accepted_since(ids: dict[bytes, int], since_ms: int) -> dict[bytes, int]:
    return {key: accepted_ms for key, accepted_ms in ids.items() if accepted_ms > since_ms}


def _origin_differences(source: Origin, target: Origin) -> Iterable[str]:
    for what in ("definition", "uid", "positions", "running"):
        in_source, in_target = getattr(source, what), getattr(target, what)
        if what == "positions":  # sinks have other positions in a copy
            in_source, in_target = _without_sinks(in_source), _without_sinks(in_target)
        if in_source != in_target:
            yield f"{what}: the source has {in_source!r}, the copy {in_target!r}"


def _without_sinks(positions: Mapping[str, str]) -> dict[str, str]:
    return {name: text for name, text in positions.items() if not name.startswith(SINK_PREFIX)}


def _row_differences(source: _Contents, target: _Contents, changed: set[str]) -> Iterable[str]:
    for name in sorted(source.rows.keys() | target.rows.keys()):
        kind, window, instance, scope = name
        if kind == "ranking" and window in changed:
            continue
        in_source, in_target = source.rows.get(name, (0, 0)), target.rows.get(name, (0, 0))
        if in_source != in_target:
            structure = f"{kind} of {window}, {instance}{f', {scope}' if scope else ''}"
            yield (
                f"{structure}: the source has {in_source[0]:,} rows, the copy {in_target[0]:,}"
                if in_source[0] != in_target[0]
                else f"{structure}: some of its {in_source[0]:,} rows differ"
            )


def _count_difference(
    what: str, source: Mapping[bytes, object], target: Mapping[bytes, object]
) -> Iterable[str]:
    if source != target:
        count = sum(source.get(key) != target.get(key) for key in source.keys() | target.keys())
        yield f"{what}: {count:,} differ"
