"""Rules: a board's definition made ready for use, with everything resolved to integers."""

from typing import Literal

from msgspec import Struct

from .windows import Window

Op = Literal["sum", "last", "best"]
RankStyle = Literal["ordinal", "competition", "dense"]


class ColumnRule(Struct, frozen=True):
    """One column. `low` and `high` are the plain range in units of 10^-scale.

    `sign` turns a value into its order: -1 where more is better, +1 where less is.
    """

    name: str
    op: Op
    sign: Literal[1, -1]
    scale: int
    low: int
    high: int


class Rules(Struct, frozen=True):
    """How a board counts and ranks.

    `tie` is 1 where the earlier stands higher, -1 where the later does, 0 where the member id
    alone decides. `windows` are in the order of the definition, by name; the first is the one
    a question without a window means. `shards` is over how many an index server divides the
    members.
    """

    columns: tuple[ColumnRule, ...]
    tie: Literal[1, -1, 0]
    resolution_ms: int
    rank: RankStyle
    windows: dict[str, Window]
    grace_ms: int
    dedupe_ms: int
    dedupe_max: int
    shards: int = 1

    @property
    def best(self) -> bool:
        """Whether the better whole tuple is kept (`best` is all columns or none)."""
        return self.columns[0].op == "best"
