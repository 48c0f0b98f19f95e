"""The errors that only commands raise: wrong usage, and files that cannot be read or written.

Errors derived from `LineRefused` do not end an import. Their codes are written to its rejects file,
like the codes of events that the board refused.
"""

from laurels.errors import Conflict, InvalidInput, LaurelsError, NotFound
from laurels.errors.sources import LineRefused


class Usage(InvalidInput):
    """The arguments or options of a command are wrong."""

    code = "usage"
    advice = "see the command's --help"


class MissingExtra(InvalidInput):
    """A package that the command needs is not installed."""

    code = "missing_extra"
    advice = "in a checkout of laurels run pip install '.[server]'"


class SourceNotText(InvalidInput):
    """The file to import is not text; for example, it is Parquet, Excel or an archive."""

    code = "source_not_text"
    advice = "import reads CSV and JSON Lines in UTF-8, plain or compressed by gzip"


class SourceChanged(InvalidInput):
    """The beginning of a file differs from what was imported from it."""

    code = "source_changed"
    advice = "to import the file from its first line as a new source, give another --source"


class SourceMissing(NotFound):
    """The key to import from does not exist."""

    code = "source_missing"
    advice = "check the key and the number of the database; an empty sorted set does not exist"


class SourceWrongType(Conflict):
    """The key to import from does not have the expected type."""

    code = "source_wrong_type"
    advice = "name a sorted set by --key, and the hash of the members' data by --data-key"


class OutputFailed(InvalidInput):
    """A file cannot be written."""

    code = "output_failed"
    advice = "check the path, its permissions and the space on the disk"


class InvalidToml(InvalidInput):
    """The file is not TOML."""

    code = "invalid_toml"
    advice = "correct it at that line; a file in JSON has to begin with { or [{"


class ChangedMeanwhile(Conflict):
    """Another program changed a board after the command had read its definition."""

    code = "changed_meanwhile"
    advice = "repeat the command: the changes made so far remain, and the others are checked again"


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
