"""Receives sealed periods of boards that are copied from another store.

The shares of a period are kept in a temporary file until the period is whole. Whole periods are
written to the archive, at the latest when the copy is finished; several small periods are written
to one segment. If the process dies, the received shares are lost, and the copy has to begin again.
"""

from collections.abc import Iterable, Iterator, Sequence
from threading import Lock

import msgspec

from laurels.core.digest import ErasedEntry
from laurels.core.entry_columns import EntryColumns
from laurels.core.sealed_contents import SealedPiece, SealedRanking, SealedRevision, SealedRows
from laurels.core.season_pieces import SealedShare
from laurels.errors import LaurelsError, StorageFailed
from laurels.errors.copies import CopyLost, CopyRefused, InvalidCopy

from .archive import SMALL_BYTES, Archive
from .ranking_form import FrozenRanking
from .segment import KeptRanking, PeriodKey

_encode = msgspec.msgpack.Encoder().encode
_pieces: msgspec.msgpack.Decoder[list[SealedPiece]] = msgspec.msgpack.Decoder(list[SealedPiece])


class ReceivedPeriods:
    """The sealed periods of unfinished copies, by the numbers of the copies."""

    def __init__(self, archive: Archive) -> None:
        self._archive = archive
        self._lock = Lock()
        self._copies: dict[int, _Copy] = {}

    def add(self, number: int, uid: str, share: SealedShare) -> None:
        """Add the next share of a period of the board with this uid. Raises CopyLost if a share
        before it is missing, InvalidCopy, StorageFailed."""
        with self._lock:
            if (copy := self._copies.get(number)) is None:
                copy = self._copies[number] = _Copy(self._archive, uid)
            copy.add(share)

    def write(self, number: int) -> None:
        """Write all periods of a copy to the archive, durably. Raises InvalidCopy, StorageFailed,
        CopyLost if one is not whole."""
        with self._lock:
            if (copy := self._copies.get(number)) is not None:
                copy.write_all()

    def end(self, number: int) -> None:
        """Forget a copy that was finished or given up."""
        with self._lock:
            if (copy := self._copies.pop(number, None)) is not None:
                copy.close()


class _Copy:
    """The periods of one copy. `_periods` has the whole periods that are not in the archive yet.
    `_places` has, for each received share of the period that is not whole yet, its place in the
    file."""

    def __init__(self, archive: Archive, uid: str) -> None:
        self._archive = archive
        self._uid = uid
        self._file = archive.spool()
        self._size = 0
        self._periods: list[tuple[SealedRevision, list[tuple[int, int]]]] = []
        self._revision: SealedRevision | None = None
        self._places: list[tuple[int, int]] = []

    def close(self) -> None:
        self._file.close()

    def add(self, share: SealedShare) -> None:
        if not share.number:
            first = share.pieces[0] if share.pieces else None
            if not isinstance(first, SealedRevision):
                raise InvalidCopy("expected a sealed period that begins with its revision")
            self._begin(first)
        own = self._revision
        if own is None or (own.window, own.instance, own.revision) != _place_of(share):
            if any(_place_of(share) == _place_of(each) for each, _ in self._periods):
                return  # the share was sent before
            raise CopyLost("shares of a sealed period are missing before this one")
        if share.number > len(self._places):
            raise CopyLost("shares of a sealed period are missing before this one")
        if share.number == len(self._places):
            pieces = share.pieces[1:] if not share.number else share.pieces
            self._append(pieces)
        if share.is_last and share.number == len(self._places) - 1:
            self._periods.append((own, self._places))
            self._revision, self._places = None, []
            if self._size > SMALL_BYTES:
                self._write()

    def _begin(self, revision: SealedRevision) -> None:
        """Begin a period. If the same period was begun before, drop the shares received since
        then."""
        if revision.uid != self._uid:
            raise InvalidCopy("expected sealed periods of the board that is copied")
        if self._revision is not None and _place_of(self._revision) != _place_of(revision):
            raise CopyLost("the sealed period before this one is not whole")
        self._periods = [
            each for each in self._periods if _place_of(each[0]) != _place_of(revision)
        ]
        self._revision, self._places = revision, []

    def _append(self, pieces: list[SealedPiece]) -> None:
        if any(isinstance(each, SealedRanking) and each.members is not None for each in pieces):
            raise CopyRefused(
                "the archive has only the head of a ranking of this board, and this store archives "
                "rankings as a whole"
            )
        body = _encode(pieces)
        try:
            self._file.seek(self._size)
            self._file.write(body)
        except OSError as error:
            raise StorageFailed(f"a sealed period could not be written ({error})") from error
        self._places.append((self._size, len(body)))
        self._size += len(body)

    def write_all(self) -> None:
        if self._revision is not None:
            raise CopyLost("the last sealed period is not whole")
        if self._periods:
            self._write()

    def _write(self) -> None:
        """Write the whole periods to the archive, and verify their digests."""
        periods = [
            (_key(revision), _rankings(self._read(places))) for revision, places in self._periods
        ]
        try:
            written = self._archive.write_kept(periods)
        except LaurelsError:
            raise
        except (ValueError, LookupError) as error:
            raise InvalidCopy(f"a sealed period is malformed ({error})") from error
        different = [
            _key(revision)
            for (revision, _), each in zip(self._periods, written, strict=True)
            if (each.entries, each.digest) != (revision.seal.entries, revision.seal.digest)
        ]
        self._archive.drop(different)
        if different:
            key = different[0]
            raise InvalidCopy(
                f"the standings of the window {key.window!r} from {key.instance}, revision "
                f"{key.revision}, do not have the digest that they were sealed with"
            )
        self._periods, self._size = [], 0
        self._file.seek(0)
        self._file.truncate()

    def _read(self, places: Iterable[tuple[int, int]]) -> Iterator[SealedPiece]:
        for start, length in places:
            try:
                self._file.seek(start)
                body = self._file.read(length)
            except OSError as error:
                raise StorageFailed(f"a sealed period could not be read ({error})") from error
            yield from _pieces.decode(body)


def _place_of(period: SealedRevision | SealedShare) -> tuple[str, int, int]:
    return period.window, period.instance, period.revision


def _key(revision: SealedRevision) -> PeriodKey:
    return PeriodKey(revision.uid, revision.window, revision.instance, revision.revision)


def _rankings(pieces: Iterator[SealedPiece]) -> Iterator[KeptRanking]:
    """Yield the rankings of a period. The entries of each have to be read before the next one."""
    piece = next(pieces, None)
    last: str | None = None
    while piece is not None:
        if not isinstance(piece, SealedRanking):
            raise ValueError("expected a ranking before its entries")
        if last is not None and piece.scope <= last:
            raise ValueError("expected the scopes in ascending order")
        chunks = _Chunks(pieces, piece)
        yield KeptRanking(
            FrozenRanking(
                piece.scope, piece.style, piece.columns, piece.ordered, piece.total, chunks
            ),
            piece.salts(),
            piece.erased,
        )
        last, piece = piece.scope, chunks.after


class _Chunks:
    """Yields the entries of a ranking. Afterwards, `after` is the piece that follows them."""

    def __init__(self, pieces: Iterator[SealedPiece], ranking: SealedRanking) -> None:
        self._pieces = pieces
        self._ranking = ranking
        self.after: SealedPiece | None = None

    def __iter__(self) -> Iterator[EntryColumns]:
        order = _Order(self._ranking)
        for piece in self._pieces:
            if not isinstance(piece, SealedRows):
                self.after = piece
                return
            members, words = piece.names(), piece.words()
            order.ensure(members, words)
            yield EntryColumns(piece.members, piece.lengths, words)


class _Order:
    """Ensures that the entries of a ranking are in ranking order, so that they can be searched. For
    an erased entry only the words are checked, since its token is not in the order of members."""

    def __init__(self, ranking: SealedRanking) -> None:
        self._ordered = ranking.ordered
        self._erased: dict[int, ErasedEntry] = {each.position: each for each in ranking.erased}
        self._position = 0
        self._last: tuple[tuple[int, ...], bytes] | None = None

    def ensure(self, members: Sequence[bytes], words: Sequence[Sequence[int]]) -> None:
        """Raise ValueError if the next entries are not in order."""
        keys = zip(zip(*words[: self._ordered], strict=True), members, strict=True)
        for position, (row, member) in enumerate(keys, self._position):
            last, is_erased = self._last, position in self._erased
            if last is not None and (row < last[0] if is_erased else (row, member) <= last):
                raise ValueError("expected the entries in the order of their ranking")
            if not is_erased:
                self._last = row, member
            elif last is None or last[0] != row:
                self._last = row, b""
        self._position += len(members)
