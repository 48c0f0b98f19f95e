"""The query that reads a sealed period as it is archived, in pieces. A ledger stores these
pieces."""

import msgspec

from laurels.errors import InvalidCursor, InvalidLimit, UnknownRevision
from laurels.model.answer import Answer
from laurels.model.labels import ALL
from laurels.model.validation import safe_repr
from laurels.timeline.instants import MIN_MS

from .closing import ensure_sealed
from .named_windows import readable, window_named
from .query import Query
from .query_context import QueryContext
from .ranking_key import RankingKey
from .read_plan import MAX_LIMIT, ReadPlan
from .requests import ReadRequest
from .sealed_contents import SealedPart, SealedPiece, SealedRanking, SealedRevision, SealedRows

_place = msgspec.json.Decoder(tuple[str, int])


class SealedPage(Answer, frozen=True):
    """Pieces of a sealed period. The first page begins with its `SealedRevision`. `next` is the
    argument `after` for the next page, None at the end."""

    pieces: list[SealedPiece]
    next: str | None = None


class ArchivePieces(Query[SealedPage], frozen=True, kw_only=True):
    """A revision of a sealed period as it is archived: the entries of all its rankings with their
    words, and the secrets of the salts, from which its digest can be computed. The pieces are what
    a ledger and a copy of the board store."""

    verb = "archive_pieces"
    path = "archive/pieces"
    returns = SealedPage
    is_administrative = True

    window: str | None = None
    period: str | None = None
    revision: int = 0
    after: str | None = None
    limit: int = 1_000

    def __post_init__(self) -> None:
        self._ensure("limit", 1, MAX_LIMIT, InvalidLimit)
        self._ensure("revision", 0, None, UnknownRevision)
        _place_of(self.after)

    @property
    def size(self) -> int:
        return self.limit

    def plan(self, now: QueryContext) -> ReadPlan[SealedPage]:
        state = now.state
        window = window_named(state.rules, self.window)
        closing = state.closing.get(window.name)
        floor_ms = state.floors.get(window.name, MIN_MS)
        period = readable(window, floor_ms, now.now_ms, self.period, closing)
        instance = window.instance_of(period)
        seal = ensure_sealed(state, window, instance, self.revision)
        scope, position = _place_of(self.after)
        request = ReadRequest(
            RankingKey(state.number, window.name, instance, ALL),
            revision=self.revision,
            sealed=SealedPart(scope, position, self.limit),
        )

        def page(pieces: list[SealedPiece]) -> SealedPage:
            if pieces and isinstance(first := pieces[0], SealedRevision):
                pieces = [first.described_by(seal), *pieces[1:]]
            return SealedPage(pieces, _next(pieces, scope, position))

        return ReadPlan((request,), lambda results, _: page(list(results[0].sealed)))


def _next(pieces: list[SealedPiece], scope: str, position: int) -> str | None:
    """Return the place at which the next page begins: after the last entry of these pieces, which
    began at `position` in `scope`. Return None if there are no pieces."""
    if not pieces:
        return None
    for piece in pieces:
        if isinstance(piece, SealedRanking):
            scope, position = piece.scope, 0
        elif isinstance(piece, SealedRows):
            position += piece.size
    return msgspec.json.encode((scope, position)).decode()


def _place_of(after: str | None) -> tuple[str, int]:
    """Return the scope and the position at which a page begins."""
    if after is None:
        return ALL, 0
    try:
        scope, position = _place.decode(after)
    except (msgspec.MsgspecError, TypeError, UnicodeEncodeError) as error:
        raise InvalidCursor(
            f"expected the `next` of a page of pieces, got {safe_repr(after)}"
        ) from error
    if not 0 <= position < 2**53:
        raise InvalidCursor(f"expected the `next` of a page of pieces, got {safe_repr(after)}")
    return scope, position
