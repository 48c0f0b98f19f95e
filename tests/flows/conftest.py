"""Fixtures of the flow tests: the database servers of the ledger tests, which all tests share."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from .databases import RUNNING, MariaDB, Postgres
from .sinking import drop


@pytest.fixture(scope="module")
def postgres() -> Iterator[Postgres]:
    with Postgres() as server:
        yield server


@pytest.fixture(scope="module")
def mariadb() -> Iterator[MariaDB]:
    with MariaDB() as server:
        yield server


@pytest.fixture(params=["sqlite", "postgres", "mariadb"])
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
