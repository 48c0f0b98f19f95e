"""Writes one segment after another to an archive, and prints a line after each, until killed."""

from __future__ import annotations

import os
import sys
from itertools import count
from pathlib import Path

from laurels.stores.local.archive.archive import Archive
from laurels.stores.local.archive.folder import FolderSegments
from laurels.stores.local.archive.segment import PeriodKey

from .standings import frozen, random_secret, rows_of


def main() -> None:
    archive = Archive(FolderSegments(Path(sys.argv[1])), random_secret())
    rows = rows_of(int(os.environ["LAURELS_TEST_SIZE"]), 1)
    for number in count():
        archive.write([(PeriodKey("uid", "day", number), [frozen(rows)])])
        print(number, flush=True)


main()
