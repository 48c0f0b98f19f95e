"""A server of boards on an index server, with a clock of its own. Tests kill it while it seals
periods, clears boards and erases members.

    python -m tests.redis.season_server URL PORT NOW_MS

Input and output are those of `tests.flows.season_server`. The stages are each call of a script, and
each transaction in a ledger.
"""

from __future__ import annotations

import sys

from laurels.stores.redis import sealing
from laurels.stores.redis.connection.connection import Connection
from laurels.stores.redis.ledgers import Ledger
from tests.contract.deployments import small_heads
from tests.flows.season_server import announce, serve
from tests.redis.writing import patient

if __name__ == "__main__":
    sealing.LEASE_MS = 500  # so that the next process need not wait for long after a kill
    small_heads()
    announce("call", Connection, "script")
    announce("write", Ledger, "write")
    with patient():
        serve(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
