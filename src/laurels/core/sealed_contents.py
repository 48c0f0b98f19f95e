"""Sealed periods as plain records: the form in which the archive is copied between stores, and
written to a ledger. Pure.

A period is a `SealedRevision` and then, for each of its rankings in the order of their scopes, a
`SealedRanking` and its `SealedRows`, in ranking order. With the secrets of the salts, the digest
can be computed from these records.
"""

from array import array
from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from laurels.engine.batch.packing import pack, split_texts, unpack
from laurels.model.rules import RankStyle

from .closing import SealedPeriod
from .digest import ErasedEntry, PeriodDigest, Salts, hashes_from
from .entry_columns import EntryColumns


class SealedRevision(Struct, frozen=True, array_like=True, tag="period"):
    """A revision of a sealed period of a board's window. `uid` is that of the board; `instance` is
    the start of the period in milliseconds, or the number of a step. `seal` has the entries and the
    digest of this revision."""

    uid: str
    window: str
    instance: int
    revision: int
    seal: SealedPeriod

    def described_by(self, newest: SealedPeriod) -> "SealedRevision":
        """Return this revision with its own entries and digest, and everything else as in the seal
        of the newest revision."""
        own = self.seal
        seal = replace(
            newest, entries=own.entries, digest=own.digest, revision=self.revision, entry=0
        )
        return replace(self, seal=seal)


class SealedRanking(Struct, frozen=True, array_like=True, tag="ranking"):
    """A ranking of a sealed period with `total` entries.

    The first `columns` words of an entry are its score; entries with equal scores are ranked by the
    `style`. Entries are in the order of their first `ordered` words, and then of their members.
    `secrets` are the secrets of the salts, each with its node. `erased` are the entries whose
    members were erased. If only the head of the ranking was sealed, `members` is the number of all
    ranked members.
    """

    scope: str
    style: RankStyle
    columns: int
    ordered: int
    total: int
    secrets: list[tuple[int, int, bytes]]
    erased: list[ErasedEntry] = []
    members: int | None = None

    def salts(self) -> Salts:
        """Return the salts of the entries."""
        return Salts({(level, number): secret for level, number, secret in self.secrets})


class SealedRows(Struct, frozen=True, array_like=True, tag="entries"):
    """The next entries of a ranking: members, and packed words column by column."""

    members: bytes
    lengths: bytes
    columns: list[bytes]

    @property
    def size(self) -> int:
        """The number of entries."""
        return len(self.lengths)

    def names(self) -> list[bytes]:
        """Return the members."""
        return split_texts(self.members, self.lengths)

    def words(self) -> list["array[int]"]:
        """Return the words, column by column."""
        return [unpack(column, self.size) for column in self.columns]

    def entries(self) -> EntryColumns:
        """Return the entries."""
        return EntryColumns(self.members, self.lengths, self.words())


SealedPiece = SealedRevision | SealedRanking | SealedRows


class SealedPart(Struct, frozen=True, array_like=True):
    """Names a part of a sealed period: about `limit` entries, beginning with the one at `position`
    in `scope`, and continuing in the scopes after this one. The description of
    each ranking (`SealedRanking`) counts as one entry, too."""

    scope: str
    position: int
    limit: int

    @property
    def is_first(self) -> bool:
        """Whether this part begins with the revision."""
        return not self.scope and not self.position


def sealed_rows(members: Sequence[bytes], words: Sequence[Sequence[int]]) -> SealedRows:
    """Return entries in their order, from their words column by column."""
    columns = [pack(array("q", column)) for column in words]
    return SealedRows(b"".join(members), bytes(map(len, members)), columns)


class DigestOfPieces:
    """Computes the digest of a period from its pieces, and counts the entries."""

    def __init__(self) -> None:
        self.entries = 0
        self._digest = PeriodDigest()
        self._salts = Salts({})
        self._erased: Sequence[ErasedEntry] = ()
        self._position = 0

    def add(self, piece: SealedRanking | SealedRows) -> None:
        """Add the next piece."""
        if isinstance(piece, SealedRanking):
            self._digest.begin(piece.scope)
            self._salts, self._erased, self._position = piece.salts(), piece.erased, 0
            return
        entries = piece.entries()
        self._digest.add(hashes_from(self._salts, self._position, entries, self._erased))
        self._position += piece.size
        self.entries += piece.size

    def digest(self) -> bytes:
        """Return the digest of all pieces that were added, 32 bytes."""
        return self._digest.digest()
