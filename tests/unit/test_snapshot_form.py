"""A missing or wrong section of a snapshot is always detected, and reading returns what was
written."""

from __future__ import annotations

import io
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from laurels.errors import FormatTooNew, SnapshotDamaged
from laurels.stores.local.snapshot.form import (
    FORMAT,
    MAGIC,
    Section,
    read_sections,
    verify,
    write_sections,
)

SECTIONS = [(b"A", b"first"), (b"B", b""), (b"A", bytes(range(40))), (b"2", b"\x00" * 3)]
VERSION = range(len(MAGIC), len(MAGIC) + 4)


def written(sections: list[Section]) -> bytes:
    file = io.BytesIO()
    assert write_sections(file, sections) == len(file.getvalue())
    return file.getvalue()


def read(content: bytes) -> list[Section]:
    return list(read_sections(io.BytesIO(content), "it"))


WHOLE = written(SECTIONS)


@given(st.lists(st.tuples(st.sampled_from([b"A", b"R", b"\x00", b"\xff"]), st.binary())))
def test_sections_round_trip_through_the_file(sections: list[Section]) -> None:
    assert read(written(sections)) == sections


def test_reading_stops_right_after_the_end_marker() -> None:
    file = io.BytesIO(WHOLE + b"more")
    assert list(read_sections(file, "it")) == SECTIONS
    assert file.read() == b"more"


@pytest.mark.parametrize("length", range(len(WHOLE)))
def test_a_snapshot_truncated_anywhere_is_damaged(tmp_path: Path, length: int) -> None:
    with pytest.raises(SnapshotDamaged, match="it ends before its end marker"):
        read(WHOLE[:length])
    (tmp_path / "cut").write_bytes(WHOLE[:length])
    with pytest.raises(SnapshotDamaged):
        verify(tmp_path / "cut")


@pytest.mark.parametrize("place", range(len(WHOLE)))
def test_any_flipped_bit_is_detected_before_a_wrong_section_is_read(place: int) -> None:
    for bit in range(8):
        content = bytearray(WHOLE)
        content[place] ^= 1 << bit
        sections: list[Section] = []
        with pytest.raises((SnapshotDamaged, FormatTooNew)) as refused:
            sections.extend(read_sections(io.BytesIO(content), "it"))
        assert place in VERSION or refused.type is SnapshotDamaged
        assert sections == SECTIONS[: len(sections)]


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"laurels snapshot",
        b"x" * 100,
        WHOLE.replace(b"first", b"F1rst"),
        written(SECTIONS[:2]) + written(SECTIONS),
        written([])[:-1],
    ],
)
def test_an_incomplete_snapshot_is_damaged(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "it").write_bytes(content)
    with pytest.raises(SnapshotDamaged):
        verify(tmp_path / "it")


def test_a_missing_or_duplicated_section_is_detected() -> None:
    heads = [WHOLE.index(MAGIC) + len(MAGIC) + 4]
    for _, body in SECTIONS:
        heads.append(heads[-1] + 9 + len(body))
    for start, end in pairwise(heads):
        for content in (WHOLE[:start] + WHOLE[end:], WHOLE[:end] + WHOLE[start:]):
            with pytest.raises(
                SnapshotDamaged, match="sections, but its end marker has another number"
            ):
                read(content)


def test_a_newer_format_is_refused_and_an_impossible_one_is_reported_as_damage() -> None:
    def in_format(number: int) -> bytes:
        return MAGIC + number.to_bytes(4, "little") + WHOLE[VERSION.stop :]

    assert read(in_format(FORMAT)) == SECTIONS
    with pytest.raises(FormatTooNew, match="it is in format 7, this version reads up to 2"):
        read(in_format(7))
    with pytest.raises(SnapshotDamaged):
        read(in_format(0))
