"""The digest of a period proves each of its entries, even after one of them was erased."""

from __future__ import annotations

from hashlib import sha256, shake_128
from struct import pack

from hypothesis import given
from hypothesis import strategies as st

from laurels.core.digest import PeriodDigest, Salts, hashes_from
from laurels.core.entry_columns import EntryColumns

SECRET = b"0123456789abcdef"


def test_the_digest_is_the_documented_one() -> None:
    salts = Salts.of(SECRET).slice(0, 2)
    secret = SECRET
    for _ in range(3):
        secret = shake_128(secret).digest(16)
    leaves = shake_128(secret).digest(32)
    assert salts == [leaves[:16], leaves[16:]]
    hashes = [
        sha256(leaves[:16] + pack("<2q", -5, 7) + b"ann").digest(),
        sha256(leaves[16:] + pack("<2q", -4, 9) + b"bob").digest(),
    ]
    entries = EntryColumns.of([b"ann", b"bob"], [[-5, -4], [7, 9]])
    assert hashes_from(Salts.of(SECRET), 0, entries) == b"".join(hashes)
    digest = PeriodDigest()
    digest.begin("room=1")
    digest.add(b"".join(hashes))
    assert digest.digest() == sha256(sha256(b"room=1").digest() + b"".join(hashes)).digest()


@given(st.integers(0, 20) | st.integers(0, 2**32 - 400), st.integers(1, 400))
def test_salts_are_the_same_however_they_are_read(start: int, count: int) -> None:
    salts = Salts.of(SECRET)
    whole = salts.slice(start, start + count)
    assert [
        salt for at in range(count) for salt in salts.slice(start + at, start + at + 1)
    ] == whole
    assert len({*whole}) == count


@given(st.lists(st.integers(0, 70_000), min_size=1, max_size=4, unique=True))
def test_a_forgotten_salt_cannot_be_derived_and_the_others_stay(positions: list[int]) -> None:
    salts = Salts.of(SECRET)
    near = sorted({p + by for p in positions for by in (-1, 0, 1, 255, 256, 65_536) if p + by >= 0})
    before = {position: salts.slice(position, position + 1)[0] for position in near}
    lost = [before[position] for position in positions]
    for position in positions:
        salts = salts.without(position)
    for position in near:
        wanted = None if position in positions else before[position]
        assert salts.slice(position, position + 1) == [wanted]
    assert not {*lost} & {*salts.secrets.values()}
    assert SECRET not in salts.secrets.values()
    # the secrets from which a forgotten salt could be derived are removed
    for position in positions:
        above = {(level, position // 256 ** (4 - level)) for level in range(5)}
        assert not above & {*salts.secrets}
