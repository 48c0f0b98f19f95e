from .ranked_set import RankedSet
from .roster import Roster

def expect(structure: Roster | RankedSet, count: int) -> None: ...
