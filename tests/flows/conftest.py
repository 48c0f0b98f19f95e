"""Fixtures of the flow tests: the database servers of the ledger tests, which all tests share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from .databases import MariaDB, Postgres


@pytest.fixture(scope="module")
def postgres() -> Iterator[Postgres]:
    with Postgres() as server:
        yield server


@pytest.fixture(scope="module")
def mariadb() -> Iterator[MariaDB]:
    with MariaDB() as server:
        yield server


@pytest.fixture(params=["sqlite", "postgres", "mariadb"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URL of a database in which no table has the prefix of this test yet."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/ledger.db"
    server = request.getfixturevalue(request.param)
    name = f"t{abs(hash(request.node.nodeid)) % 10**12}_"
    return f"{server.url}?prefix={name}"
