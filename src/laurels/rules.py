"""Rules: a board's definition made ready for use, with everything resolved to integers."""

from typing import Literal

from msgspec import Struct

from .decay import WORDS
from .windows import Decay, Window

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

    def half_life_ms(self, window: str) -> int:
        """The half-life of a window of that name; 0 where scores do not fade."""
        found = self.windows.get(window)
        return found.half_life_ms if isinstance(found, Decay) else 0

    @property
    def half_lives_ms(self) -> list[int]:
        """The half-lives of the windows in which scores fade, each once."""
        found = [w.half_life_ms for w in self.windows.values() if isinstance(w, Decay)]
        return list(dict.fromkeys(found))

    def score_words(self, window: str) -> int:
        """How many words of an entry are its score: one for each column, or those of a total that
        fades. They decide who shares a rank."""
        return WORDS if self.half_life_ms(window) else len(self.columns)

    def order_words(self, window: str) -> int:
        """How many words of an entry decide the order, before the member does."""
        return self.score_words(window) + (self.tie != 0)
