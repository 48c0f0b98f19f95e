"""A program that writes payouts on an index server. Tests kill it.

python -m tests.redis.payout_writer URL START_MS SEED
"""

from __future__ import annotations

import sys

from laurels.stores.redis import sealing
from tests.archive.payout_writer import main

if __name__ == "__main__":
    sealing.LEASE_MS = 500  # so that the next process need not wait for long after a kill
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
