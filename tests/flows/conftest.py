"""Fixtures of the flow tests: the database servers of the ledger tests, which all tests share."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.repeats import Member, mark_repeats

from .databases import RUNNING, MariaDB, Postgres
from .sinking import drop

GROUPS = {"sqlite": "file", "postgres": "server", "mariadb": "server"}
"""The databases of the ledger tests. `make test` runs each case on SQLite and on one server."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Choose the items of `make test` before the conftest of all tests selects the items to run."""
    if not config.getoption("all_stores"):
        here = Path(__file__).parent
        mark_repeats((item for item in items if item.path.parent == here), _member_of, share=1)


def _member_of(name: str, value: object) -> Member | None:
    return Member(str(value), GROUPS[str(value)]) if name == "url" and value in GROUPS else None


@pytest.fixture(scope="module")
def postgres() -> Iterator[Postgres]:
    with Postgres() as server:
        yield server


@pytest.fixture(scope="module")
def mariadb() -> Iterator[MariaDB]:
    with MariaDB() as server:
        yield server


@pytest.fixture(params=list(GROUPS))
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """The URL of a database in which no table has the prefix of this test yet."""
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path}/ledger.db"
        return
    name = f"t{abs(hash(request.node.nodeid)) % 10**12}_"
    running = os.environ.get(RUNNING[request.param])
    if running is None:
        yield f"{request.getfixturevalue(request.param).url}?prefix={name}"
        return
    url = f"{running}{'&' if '?' in running else '?'}prefix={name}"
    yield url
    drop(url)
