"""How members, scopes and sources are written as texts in the tables of a ledger. Pure."""

from zlib import crc32

from laurels.errors import LaurelsError
from laurels.model.event import member_bytes
from laurels.model.labels import is_by, labels_of, labels_text

COLUMNS = 4
"""The maximum number of columns of a score."""
BUCKETS = 4_096
MAX_SCOPE = MAX_SOURCE = 300
"""The maximum length of a scope, and of the name of a source, in the ledger."""

RankingName = tuple[str, str, str]
"""Window, period and scope."""


def bucket_of(member: str) -> int:
    """Return the bucket of a member, by a hash of its id; ledger and store are compared by
    bucket."""
    return crc32(member.encode()) % BUCKETS


def is_kept_source(source: str) -> bool:
    """Return whether a ledger stores the position of a source. It does so if the source's name fits
    in a key of MariaDB."""
    return len(escape(source)) <= MAX_SOURCE


def is_member(member: str) -> bool:
    """Return whether a text can be the id of a member."""
    try:
        return bool(member_bytes(member))
    except LaurelsError:
        return False


def escape(text: str) -> str:
    """Return a text with NUL and backslash escaped, since PostgreSQL refuses the character NUL.
    `unescape` is the inverse."""
    return text.replace("\\", "\\\\").replace("\0", "\\0") if "\\" in text or "\0" in text else text


def unescape(text: str) -> str:
    """Return the original text from an escaped one."""
    if "\\" not in text:
        return text
    return "\\".join([part.replace("\\0", "\0") for part in text.split("\\\\")])


def scope_text(labels: dict[str, str] | None) -> str:
    """Return the text of a scope in the ledger; a very long one is shortened."""
    if not labels:
        return ""
    text = escape(labels_text(labels))
    if len(text) <= MAX_SCOPE:
        return text
    return f"{text[: MAX_SCOPE - 9]}~{crc32(text.encode()):08x}"


def may_be_shortened(scope: str) -> bool:
    """Return whether the text of a scope may be shortened. The labels of shortened scopes are in
    the table `scopes`."""
    return len(scope) == MAX_SCOPE and scope[-9] == "~"


def labels_in(scope: str) -> dict[str, str]:
    """Return the labels in the text of a scope that is not shortened."""
    return labels_of(unescape(scope))


def ledger_scope(scope: str) -> str:
    """Return how the scope of a ranking is written in a ledger: its labels as in `scope_text`, or
    `@room` for a ranking by a label."""
    return scope if is_by(scope) else scope_text(labels_of(scope))
