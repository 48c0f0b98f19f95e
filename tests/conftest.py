"""Settings of all tests: no deadlines, more cases in `make torture`, temporary files in memory, and
the order of files."""

from __future__ import annotations

import gc
import os
import shutil
import signal
import tempfile
from collections.abc import Hashable
from functools import cache
from pathlib import Path
from ssl import SSLContext
from typing import Protocol

import pytest
from _pytest.runner import runtestprotocol
from httpx._config import DEFAULT_TIMEOUT_CONFIG
from httpx._transports import default
from hypothesis import HealthCheck, settings

LONG_FIRST = (
    "copying/test_stores.py",
    "http/test_page.py",
    "bench/test_http.py",
    "bench/test_redis.py",
    "copying/test_seasons.py",
    "stateful/test_episodes.py",
    "http/test_takeover.py",
    "copying/test_while_written.py",
    "redis/test_head_shards.py",
    "http/test_page_details.py",
    "cli/test_cdnow.py",
    "crash/test_failing_io.py",
    "http/test_page_moderation.py",
    "unit/test_readme.py",
    "contract/test_scopes_over_time.py",
    "redis/test_refresh.py",
    "http/test_over_redis.py",
    "flows/test_sink_cuts.py",
    "http/test_moving_seasons.py",
    "copying/test_over_http.py",
    "http/test_moving.py",
    "redis/test_clearing.py",
    "redis/test_erasing.py",
    "flows/test_source_failover.py",
    "cli/test_usage.py",
    "copying/test_command.py",
    "contract/test_archived_boundaries.py",
    "http/test_moving_kills.py",
    "redis/test_scopes.py",
    "http/test_page_seasons.py",
    "contract/test_archive.py",
    "redis/test_ledger_servers.py",
    "copying/test_kills_of_kinds.py",
    "cli/test_resume.py",
    "flows/test_source_overtaken.py",
    "copying/test_blocked_payouts.py",
    "bench/test_targets.py",
    "flows/test_sink_kills.py",
    "cli/test_import_redis_compared.py",
    "contract/test_head.py",
    "http/test_page_scopes.py",
    "contract/test_erase.py",
    "contract/test_head_hide_zero.py",
    "redis/test_head_layout.py",
    "engine/test_rolling.py",
    "flows/test_reconcile_scores.py",
    "flows/test_reconcile.py",
    "flows/test_rebuild.py",
    "redis/test_closing.py",
    "flows/test_season_kills.py",
    "http/test_fuzz.py",
    "engine/test_stubs.py",
    "contract/test_changes.py",
    "release/test_packaging.py",
    "http/test_key_changes.py",
    "contract/test_scopes.py",
    "contract/test_refresh.py",
    "contract/test_hide.py",
)
"""The files with the longest tests, which run first. If they started last, some cores would have
nothing to do for the last minutes."""

pytest.register_assert_rewrite(
    "tests.comparison", "tests.http.browser", "tests.stateful.comparing", "tests.stateful.world"
)


# A busy machine is slow at random. So the time that an example takes does not show whether the code
# is slow.
for profile, examples in (("test", 50), ("torture", 2_000)):
    settings.register_profile(
        profile,
        max_examples=examples,
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow],
        print_blob=True,
    )
settings.load_profile("test")


# Otherwise each HTTP client and each connection to MariaDB would read the certificates of this
# machine. That takes longer than most tests.
TLS, AUTHORITIES = "create_ssl_context", "load_default_certs"
setattr(default, TLS, cache(getattr(default, TLS)))
setattr(SSLContext, AUTHORITIES, lambda *_: None)


# The default timeout of HTTP clients, 5 s, would be a deadline, too.
for phase in ("connect", "read", "write", "pool"):
    setattr(DEFAULT_TIMEOUT_CONFIG, phase, 60.0)


class Scaled(Protocol):
    """A function that returns `few` in `make test` and `many` in `make torture`."""

    def __call__(self, few: int, many: int) -> int: ...


@pytest.fixture(scope="session")
def scaled(request: pytest.FixtureRequest) -> Scaled:
    """Return a function that chooses the number of cases to try. A test that uses it also runs in
    `make torture`."""
    torture = bool(request.config.getoption("torture"))
    return lambda few, many: many if torture else few


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """Return the number of workers for `-n auto`: 1.5 times the number of cores. A worker spends
    half of its time waiting for programs, browsers and servers that it has started."""
    cores = (
        len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    )
    return cores + cores // 2


def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
    """Make a worker report only the result of each test, and report setup and teardown only if they
    failed. Transferring a report takes as long as most tests, and the default is three reports for
    each of ten thousand tests. `--durations` needs all three."""
    if not hasattr(item.config, "workerinput") or item.config.getoption("durations") is not None:
        return None
    item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
    for report in runtestprotocol(item, log=False, nextitem=nextitem):
        if report.when == "call" or not report.passed:
            item.ihook.pytest_runtest_logreport(report=report)
    item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
    return True


def pytest_configure(config: pytest.Config) -> None:
    _take_interrupts()
    if config.getoption("torture"):
        settings.load_profile("torture")
    else:
        _keep_files_in_memory()


def _take_interrupts() -> None:
    """Handle Ctrl-C even if a shell started the tests in the background with SIGINT ignored.
    Programs inherit ignored signals. Without this, SIGINT would not end the programs that a test
    starts."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


MEMORY = Path("/dev/shm")
ENOUGH_BYTES = 2**31


def _keep_files_in_memory() -> None:
    """Put the temporary files of all tests, and of the programs they start, into memory. On a disk,
    thousands of tests would wait for flushes, although a killed process leaves the same files on a
    disk and in memory. `TMPDIR` chooses another folder."""
    if "TMPDIR" in os.environ or not os.access(MEMORY, os.W_OK):
        return
    if shutil.disk_usage(MEMORY).free >= ENOUGH_BYTES:
        os.environ["TMPDIR"] = str(MEMORY)
        tempfile.tempdir = None  # the module computes it again at its next use


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--torture",
        action="store_true",
        help="run only the tests that have more cases in `make torture`, with all of them",
    )
    parser.addoption(
        "--all-stores",
        action="store_true",
        help="run each case on every store, not only on one of each group",
    )


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    _select(config, items)
    _order(items)


def pytest_collection_finish() -> None:
    """Exclude the objects of ten thousand collected tests from garbage collection."""
    gc.collect()
    gc.freeze()


def _select(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Select the tests of this run. Without `--torture`, these are all cases that are not marked
    `torture`. With `--torture`, these are all cases of the tests that have more cases with this
    option."""
    torture = bool(config.getoption("torture"))
    long = {_test_of(item) for item in items if _has_long_count(item)}
    kept, others = list[pytest.Item](), list[pytest.Item]()
    for item in items:
        chosen = _test_of(item) in long if torture else not _is_torture(item)
        (kept if chosen else others).append(item)
    if others:
        config.hook.pytest_deselected(items=others)
        items[:] = kept


def _has_long_count(item: pytest.Item) -> bool:
    """Return whether a test has more cases in `make torture`: cases marked `torture`, a count from
    `scaled`, or the examples of a property."""
    is_property = getattr(getattr(item, "obj", None), "is_hypothesis_test", False)
    return _is_torture(item) or is_property or "scaled" in getattr(item, "fixturenames", ())


def _is_torture(item: pytest.Item) -> bool:
    return item.get_closest_marker("torture") is not None


def _test_of(item: pytest.Item) -> Hashable:
    """Return the identity of the test function that an item runs, which is the same for all its
    cases."""
    return item.path, getattr(item, "cls", None), getattr(item, "originalname", item.name)


def _order(items: list[pytest.Item]) -> None:
    places = {Path(__file__).parent / name: i for i, name in enumerate(LONG_FIRST)}
    items.sort(key=lambda item: places.get(item.path, len(places)))
