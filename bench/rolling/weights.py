"""The bytes of each structure of a rolling board, per member and per cell of a tally."""

from bench.peers.rolling_api import RollingApi
from bench.peers.rolling_store import ALL, DAY, LIVE, PREPARED, RollingStore
from bench.rolling.table import Owner, Table
from bench.timing import Sample
from bench.workload import Population

_GROUP = "Memory of all + day + rolling 7d/1h, bytes a member"
_CELL = "a cell of a tally"


def weigh_ours(api: RollingApi, population: Population) -> list[Sample]:
    """Return samples of the memory of our index. The memory of each ranking (all, day, live and
    prepared) is divided by the number of its members."""
    table, owner = Table(_GROUP, population), Owner("laurels engine", "tie first")
    board = api.board_store
    window = board.whole.rolling["rolling"]
    rankings = {name: ranking for (name, _), ranking in board.whole.rankings.items()}
    for case, ranking in {**rankings, "live": window.live, "prepared": window.prepared}.items():
        table.keep(owner, case, "bytes", ranking.nbytes / len(ranking))
    tallies = [window.tally(number) for number in window.numbers()]
    cells = sum(len(tally) for tally in tallies if tally is not None)
    table.keep(owner, _CELL, "bytes", window.tally_nbytes / cells)
    table.keep(owner, "the ids", "bytes", api.index._roster.nbytes / population.count)
    together = sum(ranking.nbytes for ranking in rankings.values()) + window.nbytes
    table.keep(owner, "together", "bytes", (together + api.index._roster.nbytes) / population.count)
    return table.samples


def weigh_redis(store: RollingStore, population: Population) -> list[Sample]:
    """Return samples of the memory of the keys in Redis, as the server estimates it. The keys
    contain the ids of the members themselves."""
    table, owner = Table(_GROUP, population), Owner("Redis", "MEMORY USAGE", ours=False)
    for case, key in (("all", ALL), ("day", DAY), ("live", LIVE), ("prepared", PREPARED)):
        table.keep(owner, case, "bytes", store.nbytes(key) / store.size(key))
    nbytes, cells = store.tallies()
    table.keep(owner, _CELL, "bytes", nbytes / cells)
    grown = Owner("Redis", "used_memory", ours=False)
    table.keep(grown, "together", "bytes", store.grown() / population.count)
    return table.samples


def weigh_process(grown: int, population: Population) -> list[Sample]:
    """Return a sample of the bytes per member by which a whole process has grown."""
    table = Table(_GROUP, population)
    table.keep(
        Owner("laurels API", "growth of a process"), "together", "bytes", grown / population.count
    )
    return table.samples
