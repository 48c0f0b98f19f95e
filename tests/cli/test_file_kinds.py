"""A file that is not text is refused before any line is counted, with an error that names its
kind."""

import bz2
import gzip
import io
import lzma
import sqlite3
import zipfile
from pathlib import Path

import pytest

from laurels.cli.errors import SourceNotText
from laurels.cli.importing.file_kinds import HEAD_BYTES, ensure_text
from tests.cli.running import Shell

CSV = b"member,value\nann,1\n"


def zipped() -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("events.csv", CSV)
    return packed.getvalue()


def database(folder: Path) -> bytes:
    path = folder / "events.db"
    sqlite3.connect(path).execute("CREATE TABLE events (member, value)").connection.close()
    return path.read_bytes()


@pytest.fixture
def board(shell: Shell) -> Shell:
    shell.ok("board", "create", "b")
    return shell


@pytest.mark.parametrize(
    ("content", "name", "remedy"),
    [
        (b"PAR1\x15\x04\x15\x10\x15\x14L\x15\x02", "Parquet", "read_parquet"),
        (b"ARROW1\0\0\xff\xff\xff\xff", "Arrow", "read_feather"),
        (b"ORC\n\x0b\n\x03\0\0\0", "ORC", "read_orc"),
        (b"Obj\x01\x04\x14avro.codec", "Avro", "JSON Lines"),
        (zipped(), "ZIP archive or an Excel file", "unpack"),
        (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1\0\0", "Excel", "CSV"),
        (bz2.compress(CSV), "bzip2", "bzip2 -dc"),
        (lzma.compress(CSV), "xz", "xz -dc"),
        (b"\x28\xb5\x2f\xfd\x04\x58", "zstd", "zstd -dc"),
        (CSV.decode().encode("utf-16"), "UTF-16", "iconv"),
        (gzip.compress(b"PAR1\x15\x04\x15\x10"), "Parquet", "read_parquet"),
    ],
    ids=[
        "parquet",
        "arrow",
        "orc",
        "avro",
        "zip",
        "excel",
        "bzip2",
        "xz",
        "zstd",
        "utf-16",
        "parquet-in-gzip",
    ],
)
def test_the_error_for_a_file_that_is_not_text_names_its_kind(
    board: Shell, content: bytes, name: str, remedy: str
) -> None:
    (board.directory / "events.bin").write_bytes(content)
    ran = board("import", "b", "events.bin")
    assert (ran.code, ran.err.split(":")[0]) == (2, "error [source_not_text]")
    assert name in ran.err
    assert remedy in ran.err
    assert "UTF-8" not in ran.err.split("; import reads")[0].replace("CSV (UTF-8)", "").replace(
        "-t UTF-8", ""
    )
    assert not list(board.directory.glob("*.rejects.csv"))


def test_a_database_is_distinguished_from_text(tmp_path: Path) -> None:
    with pytest.raises(SourceNotText, match="sqlite3 -header -csv"):
        ensure_text(database(tmp_path)[:HEAD_BYTES])


@pytest.mark.parametrize(
    "content", [CSV, b"", b"PAR1,100\n", b"ORC,5\n", b"BZh9,5\n", b"\xef\xbb\xbfmember,value\n"]
)
def test_text_is_accepted_whatever_it_begins_with(content: bytes) -> None:
    ensure_text(content)
    ensure_text((content + "é".encode() * 64)[: HEAD_BYTES - 1])


def test_a_frame_exported_to_csv_is_imported(board: Shell) -> None:
    import pandas as pd  # noqa: PLC0415 (takes long)

    frame = pd.DataFrame({"member": ["ann", "ben"], "value": [1, 2]})
    frame.to_csv(board.directory / "events.csv", index=False)
    assert board("import", "b", "events.csv").code == 0
