"""The errors of the command line alone: wrong usage, and files that cannot be read or written.

They are `LaurelsError`s like all others. Those of the family `LineRefused` never end an import:
they are codes in its rejects file, as are the codes of the errors by which the board refuses
events.
"""

from laurels.errors import Conflict, InvalidInput, LaurelsError, NotFound
from laurels.errors.sources import LineRefused


class Usage(InvalidInput):
    """The arguments or options of a command are wrong."""

    code = "usage"
    advice = "see the command's --help"


class MissingExtra(InvalidInput):
    """A package the command needs is not installed."""

    code = "missing_extra"
    advice = "in a checkout of laurels run pip install '.[server]'"


class SourceNotText(InvalidInput):
    """The file to import is not text, but for example Parquet, Excel or an archive."""

    code = "source_not_text"
    advice = "import reads CSV and JSON Lines in UTF-8, packed by gzip or not"


class SourceChanged(InvalidInput):
    """The beginning of a file is no longer what was imported from it."""

    code = "source_changed"
    advice = "to import the file from its first line as a new source, give another --source"


class SourceMissing(NotFound):
    """The key to import from does not exist."""

    code = "source_missing"
    advice = "check the key and the number of the database; an empty sorted set does not exist"


class SourceWrongType(Conflict):
    """The key to import from has a type that is not read."""

    code = "source_wrong_type"
    advice = "name a sorted set by --key, and the hash of the members' data by --data-key"


class OutputFailed(InvalidInput):
    """A file cannot be written."""

    code = "output_failed"
    advice = "check the path, its permissions and the space on the disk"


class InvalidToml(InvalidInput):
    """The file is not TOML."""

    code = "invalid_toml"
    advice = "correct it at that line; JSON needs a file whose name ends in .json"


class ChangedMeanwhile(Conflict):
    """Another program changed a board after it was read to be changed."""

    code = "changed_meanwhile"
    advice = "run it again: completed changes stay, and the others are checked anew"


class InvalidCsv(LineRefused):
    """The line breaks the rules of quoting, or a quote is not closed."""

    code = "invalid_csv"
    advice = 'write fields that hold a quote as "a ""quoted"" field"'


class WrongFieldCount(LineRefused):
    """The line has more or fewer fields than the header."""

    code = "wrong_field_count"
    advice = "quote fields that hold the delimiter"


def one_line(error: LaurelsError) -> str:
    """Return an error as one line of text for people."""
    return " ".join(str(error).split())
