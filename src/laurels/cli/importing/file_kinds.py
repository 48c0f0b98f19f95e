"""Recognizes files that are not text by their first bytes, so that the error can give a remedy.

An import reads CSV and JSON Lines, plain or compressed by gzip. Without this check, every line of
another file would be refused as "not UTF-8", which suggests the wrong remedy.
"""

from typing import NamedTuple

from laurels.cli.errors import SourceNotText

HEAD_BYTES = 64
"""The number of bytes that `ensure_text` needs."""


class Kind(NamedTuple):
    """A kind of file: its first bytes, its name for people, and how to convert it to text."""

    magic: bytes
    name: str
    remedy: str


_AS_CSV = "write it as CSV, for example with pandas: pd.{}({!r}).to_csv({!r}, index=False)"
_UNPACK = "unpack it first: {} -dc FILE | laurels import BOARD -"
_KINDS = (
    Kind(b"PAR1", "a Parquet file", _AS_CSV.format("read_parquet", "events", "events.csv")),
    Kind(b"ARROW1", "an Arrow file", _AS_CSV.format("read_feather", "events", "events.csv")),
    Kind(b"ORC", "an ORC file", _AS_CSV.format("read_orc", "events", "events.csv")),
    Kind(b"Obj\x01", "an Avro file", "write it as JSON Lines, for example with avro-tools tojson"),
    Kind(
        b"PK\x03\x04",
        "a ZIP archive or an Excel file",
        "unpack the archive, or save the sheet as CSV (UTF-8)",
    ),
    Kind(b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "an Excel file", "save the sheet as CSV (UTF-8)"),
    Kind(
        b"SQLite format 3\0",
        "an SQLite database",
        "export the events: sqlite3 -header -csv FILE 'SELECT member, value FROM …'",
    ),
    Kind(b"\x28\xb5\x2f\xfd", "packed by zstd", _UNPACK.format("zstd")),
    Kind(b"\xfd7zXZ\0", "packed by xz", _UNPACK.format("xz")),
    Kind(b"BZh", "packed by bzip2", _UNPACK.format("bzip2")),
    Kind(b"\x04\x22\x4d\x18", "packed by lz4", _UNPACK.format("lz4")),
    Kind(b"7z\xbc\xaf\x27\x1c", "a 7-Zip archive", "unpack it first"),
    Kind(b"%PDF-", "a PDF", "export the data it shows as CSV"),
    Kind(b"\xff\xfe", "text in UTF-16", "convert it first: iconv -f UTF-16 -t UTF-8 FILE"),
    Kind(b"\xfe\xff", "text in UTF-16", "convert it first: iconv -f UTF-16 -t UTF-8 FILE"),
)


def ensure_text(head: bytes) -> None:
    """Raise SourceNotText if a file begins with the signature of a format that is not text.

    The file is accepted if its first bytes are readable text, such as `PAR1,100`.
    """
    for kind in _KINDS:
        if head.startswith(kind.magic) and not _is_line(head):
            raise SourceNotText(f"it is {kind.name}: {kind.remedy}")


def _is_line(head: bytes) -> bool:
    """Return whether bytes begin with readable text."""
    try:
        text = head.decode()
    except UnicodeDecodeError as error:
        if error.start < len(head) - 3:  # the first bytes may end within a character
            return False
        text = head[: error.start].decode()
    return all(letter.isprintable() or letter in "\t\r\n\ufeff" for letter in text)
