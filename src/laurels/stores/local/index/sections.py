"""The sections of a copy of the memory index, and how they are encoded; see `copying.py`."""

from msgspec import Struct

from laurels.core.ranking_key import RankingKey
from laurels.engine.tally.tally import Tally
from laurels.engine.tree.ranked_set import RankedSet

ROWS, NAMES, BOARD, DATA, IDS = b"R", b"N", b"B", b"D", b"I"
"""The kinds of sections."""

Structure = RankedSet | Tally


class Rows(Struct, frozen=True, array_like=True):
    """Rows of members in a structure, in columns. Without columns, the members are not in the
    structure."""

    structure: int
    ids: bytes
    columns: list[bytes]


class Names(Struct, frozen=True, array_like=True):
    """Members, with the ids by which rows refer to them."""

    ids: bytes
    arena: bytes
    lengths: bytes


class Stored(Struct, frozen=True, array_like=True):
    """A structure of a board: its key, the number by which rows refer to it, its size."""

    key: RankingKey
    structure: int
    size: int


class Contents(Struct, frozen=True, array_like=True):
    """A scope of a board, with its structures and the running steps of its rolling windows. It also
    has the fold's description of the board (None if the board was deleted), and the time of
    acceptance of the board's oldest remembered event id."""

    number: int
    described: bytes | None
    rankings: list[Stored] = []
    tallies: list[Stored] = []
    running: dict[str, int] = {}
    remembers_from_ms: int | None = None
    scope: str = ""


class Data(Struct, frozen=True, array_like=True):
    """The data of members of a board; None if a member's data was removed."""

    board: int
    items: list[tuple[bytes, bytes | None]]


class Ids(Struct, frozen=True, array_like=True):
    """Remembered event ids of a board, in groups with equal times of acceptance, oldest first."""

    board: int
    groups: list[tuple[int, list[bytes]]]
