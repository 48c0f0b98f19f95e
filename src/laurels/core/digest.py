"""The digest of a sealed period's standings. It proves that an archive has the standings that were
sealed.

The digest is SHA-256 over the hashes of the entries, in ranking order. The hash of an entry is
SHA-256 over a salt, the entry's words and its member. So the hash of an entry may stand in for the
entry: when a member has to be erased, its entry and its salt are deleted and its hash stays, and
the digest still proves all other entries. Without the salt nobody can find the member by trying
all ids.

The salts of a ranking are derived from one secret of 16 bytes, as the leaves of a tree in which
each node is a secret, from which its 256 children are derived (SHAKE-128). To forget the salt of
one position, the secrets of the nodes above it are replaced by the secrets of their other children
(`Salts.without`).
"""

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from hashlib import sha256, shake_128
from itertools import islice, takewhile

from msgspec import Struct

from laurels.engine.sealing.hashing import entry_hashes

from .entry_columns import EntryColumns

SALT_BYTES = 16
HASH_BYTES = 32
_FAN = 256
_LEVELS = 4
_FEW = 8
"""Up to this many children of a node are derived without the others. Most rankings are small, and
deriving all children of a node on each level took more time than the rest of sealing them."""
MAX_ENTRIES = _FAN**_LEVELS
"""The greatest number of entries of a ranking that has salts."""

Node = tuple[int, int]
"""A node of the tree of salts: its level, which is 0 for the root, and its number on that level."""


class Salts:
    """The salts of one ranking's entries, by position.

    `secrets` has the secrets of some nodes of the tree; this is only the root, unless salts were
    forgotten.
    """

    def __init__(self, secrets: Mapping[Node, bytes]) -> None:
        self.secrets = dict(secrets)
        self._expanded: dict[int, tuple[int, list[bytes]]] = {}

    @classmethod
    def of(cls, secret: bytes) -> "Salts":
        """Return the salts that are derived from a secret."""
        return cls({(0, 0): secret})

    def slice(self, start: int, stop: int) -> list[bytes | None]:
        """Return the salts of the entries at positions start to stop (exclusive). A salt that was
        forgotten is None."""
        salts: list[bytes | None] = []
        while start < stop:
            parent, low = divmod(start, _FAN)
            high = min(_FAN, low + stop - start)
            salts.extend(self._leaves(parent, high)[low:high])
            start += high - low
        return salts

    def joined(self, start: int, stop: int) -> bytes:
        """Return the salts that `slice` returns, joined, with 16 bytes for each. A salt that was
        forgotten is 16 zero bytes."""
        return b"".join([salt or bytes(SALT_BYTES) for salt in self.slice(start, stop)])

    def without(self, position: int, total: int = MAX_ENTRIES) -> "Salts":
        """Return salts without the one at a position. From the result all other salts of the first
        `total` positions can be derived, but not this one. The result has up to 255 more secrets
        for each level of the tree."""
        secrets = dict(self.secrets)
        for level in range(_LEVELS + 1):
            number = position // _FAN ** (_LEVELS - level)
            secret = secrets.pop((level, number), None)
            if secret is not None and level < _LEVELS:
                below = _FAN ** (_LEVELS - level - 1)
                for child, each in enumerate(_children(secret), _FAN * number):
                    if child * below < total:
                        secrets[level + 1, child] = each
        return Salts(secrets)

    def _leaves(self, parent: int, count: int) -> Sequence[bytes | None]:
        """Return at least the first `count` salts below a node of the lowest level above the
        leaves, None for each salt that was forgotten."""
        level = _LEVELS - 1
        if (secret := self._secret(level, parent)) is not None:
            return self._children(level, parent, secret, count)
        leaves = range(_FAN * parent, _FAN * (parent + 1))
        return [self.secrets.get((_LEVELS, leaf)) for leaf in leaves]

    def _secret(self, level: int, number: int) -> bytes | None:
        """Return the secret of a node, derived from the nodes above it if necessary; None if it was
        replaced because a salt below the node was forgotten."""
        if (secret := self.secrets.get((level, number))) is not None or not level:
            return secret
        parent, place = divmod(number, _FAN)
        above = self._secret(level - 1, parent)
        return None if above is None else self._children(level - 1, parent, above, place + 1)[place]

    def _children(self, level: int, number: int, secret: bytes, count: int) -> list[bytes]:
        """Return the secrets of at least the first `count` children of a node. For each level, the
        children derived last are cached. Unless they are few, all children are derived."""
        expanded = self._expanded.get(level)
        if expanded is None or expanded[0] != number or len(expanded[1]) < count:
            made = _children(secret, count if count <= _FEW else _FAN)
            expanded = self._expanded[level] = number, made
        return expanded[1]


def _children(secret: bytes, count: int = _FAN) -> list[bytes]:
    """Return the secrets of the first `count` children of a node."""
    stream = shake_128(secret).digest(count * SALT_BYTES)
    return [stream[at : at + SALT_BYTES] for at in range(0, len(stream), SALT_BYTES)]


class ErasedEntry(Struct, frozen=True, array_like=True):
    """An entry whose member was erased: its position, the hash that it had, and the token that
    stands in the place of the member."""

    position: int
    hash: bytes
    token: str


def hashes_from(
    salts: Salts, start: int, entries: EntryColumns, erased: Sequence[ErasedEntry] = ()
) -> bytes:
    """Return the hashes of the entries of a ranking from position `start` on, 32 bytes each.
    `erased` has the erased entries in ascending order of their positions; their hashes are the ones
    from before the erasure."""
    stop = start + len(entries)
    joined = salts.joined(start, stop)
    hashes = entry_hashes(joined, entries.words, entries.members, entries.lengths)
    at = bisect_left(erased, start, key=lambda each: each.position) if erased else 0
    replaced = [*takewhile(lambda each: each.position < stop, islice(erased, at, None))]
    if not replaced:
        return hashes
    changed = bytearray(hashes)
    for each in replaced:
        first = HASH_BYTES * (each.position - start)
        changed[first : first + HASH_BYTES] = each.hash
    return bytes(changed)


class PeriodDigest:
    """Computes the digest of a period, ranking by ranking in the order of their scopes."""

    def __init__(self) -> None:
        self._sum = sha256()

    def begin(self, scope: str) -> None:
        """Begin the ranking of a scope."""
        self._sum.update(sha256(scope.encode()).digest())

    def add(self, hashes: bytes) -> None:
        """Add the hashes of the next entries of the ranking, 32 bytes each."""
        self._sum.update(hashes)

    def digest(self) -> bytes:
        """Return the digest of all entries that were added, 32 bytes."""
        return self._sum.digest()
