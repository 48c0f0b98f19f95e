from laurels.engine.roster.roster import Roster

from .ranked_set import RankedSet

def reserve(structure: Roster | RankedSet, count: int) -> None: ...
