"""Boards work on every kind of server that is installed here.

Servers differ in the texts of errors and in the types of answers. The tests that depend on such
differences run again on every other installed kind of server, in a separate pytest process. `make
torture` runs all of these tests, `make test` only some short ones.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import laurels
from laurels import config
from laurels.errors.index_server import IndexTooOld
from tests.counts import some

from .programs import KINDS, Kind, chosen, need_server
from .servers import Server
from .writing import Writers, again

WITHIN_SECONDS = 1_200
ROOT = Path(__file__).parent.parent.parent
SHORT = "upkeep, order and errors in short"
DEPENDING = {
    SHORT: (
        *("tests/redis/test_upkeep.py", "tests/redis/test_faults.py"),
        *("tests/contract/test_order.py", "-k"),
        "upkeep or busy or full or replica or (order and redis and not cluster)",
    ),
    "opening and its warnings": ("tests/redis/test_opening.py", "tests/redis/test_connection.py"),
    "random boards in every layout": ("tests/redis/test_side_by_side.py", "-k", "layout and 0"),
    "windows, on one server and over the shards of a cluster": (
        *("tests/contract/test_rolling.py", "-k", "redis or shards"),
    ),
    "ids, order and columns": (
        *("tests/contract/test_dedupe.py", "tests/contract/test_order.py"),
        *("tests/contract/test_columns.py", "-k", "redis or shards"),
    ),
    "passes and upkeep": ("tests/redis/test_upkeep.py",),
    "shards": ("tests/redis/test_sharded_counting.py",),
    "faults": (
        *("tests/redis/test_faults.py", "tests/redis/test_end_to_end_faults.py"),
        *("-k", "full or memory or replica or forgot or flushed or busy or loading or fails"),
    ),
    "slots that move": ("tests/redis/test_cluster_faults.py", "-k", "moved or moves_during"),
    "feeds of several processes": ("tests/http/test_over_redis.py", "-k", "feed or shows"),
    "imports of sorted sets": (
        *("tests/cli/test_import_redis.py", "-k", "from_redis or repeated or a_cluster or refuses"),
    ),
}


def named(kind: Kind) -> str:
    return kind.name


@pytest.mark.parametrize("kind", KINDS, ids=named)
def test_boards_work_on_a_server_of_any_kind(kind: Kind) -> None:
    with Server("--appendfsync", "always", binary=kind.needed()) as server:
        try:
            lb = config.direct(server.url)
        except IndexTooOld:
            pytest.skip(f"{kind.name} is too old for laurels")
        with lb:
            windows = ["all", "day", "r=rolling:1h/1m"]
            lb.create(laurels.Board("b", windows=windows, rank="dense"))
            with Writers(lb) as writers:
                writers.wait_for_more()
                server.restart()
                writers.wait_for_more()
            again(lb)
            writers.check()
            for window in windows:
                name = window.partition("=")[0]
                assert lb.top("b", window=name).total == lb.top("b").total
            assert lb.remove("b", writers.acknowledged[0])
            lb.check()


@pytest.mark.parametrize("what", some(1, list(DEPENDING)))
@pytest.mark.parametrize("kind", KINDS, ids=named)
def test_tests_that_depend_on_the_kind_of_server_pass_on_each_kind(kind: Kind, what: str) -> None:
    if kind.needed() == need_server():
        pytest.skip(f"{kind.name} is the server of all tests")
    options = ("-p", "no:cacheprovider", "--all-stores", *DEPENDING[what])
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", *options],
        cwd=ROOT,
        env=_environment() | chosen(kind),
        capture_output=True,
        text=True,
        timeout=WITHIN_SECONDS,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert " passed" in ran.stdout


def _environment() -> dict[str, str]:
    """Return the environment without the variables that pytest sets for its worker processes."""
    return {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
