"""The errors only the command line knows: wrong usage, and files that cannot be read or written.

They are `LaurelsError`s like all others. Those of the family `LineRefused` never end an import:
they are the codes of its rejects file, beside the codes the board itself refuses by.
"""

from laurels.errors import Conflict, InvalidInput, LaurelsError, NotFound
from laurels.errors.sources import LineRefused


class Usage(InvalidInput):
    """The command was not given as it takes it."""

    code = "usage"
    advice = "see the command's --help"


class MissingExtra(InvalidInput):
    """A package the command needs is not installed."""

    code = "missing_extra"
    advice = "in a checkout of laurels run pip install '.[server]'"


class SourceNotText(InvalidInput):
    """The file to import is no text, but of a kind such as Parquet, Excel or an archive."""

    code = "source_not_text"
    advice = "import reads CSV and JSON Lines in UTF-8, packed by gzip or not"


class SourceChanged(InvalidInput):
    """What was imported of a file is not what its beginning says now."""

    code = "source_changed"
    advice = "to import the file as another one from its first line, name it by another --source"


class SourceMissing(NotFound):
    """There is nothing at the key to import from."""

    code = "source_missing"
    advice = "check the key and the number of the database; an empty sorted set is none"


class SourceWrongType(Conflict):
    """What is at the key to import from is not of the type that is read."""

    code = "source_wrong_type"
    advice = "name a sorted set by --key, and the hash of the members' data by --data-key"


class OutputFailed(InvalidInput):
    """A file cannot be written."""

    code = "output_failed"
    advice = "check the path, its permissions and the space on the disk"


class InvalidToml(InvalidInput):
    """The file is not TOML."""

    code = "invalid_toml"
    advice = "correct it at the line named; what is JSON belongs into a file named .json"


class ChangedMeanwhile(Conflict):
    """Somebody else wrote a board after it was read to be changed."""

    code = "changed_meanwhile"
    advice = "run it again: what was done stays, and the rest is judged by what is there now"


class InvalidCsv(LineRefused):
    """The line breaks the rules of quoting, or its quotes do not close."""

    code = "invalid_csv"
    advice = 'write fields that hold a quote as "a ""quoted"" field"'


class WrongFieldCount(LineRefused):
    """The line has more or fewer fields than the header."""

    code = "wrong_field_count"
    advice = "quote fields that hold the delimiter"


def one_line(error: LaurelsError) -> str:
    """Return an error as text for people, on one line."""
    return " ".join(str(error).split())
