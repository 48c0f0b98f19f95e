from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.redis.servers import Server

from .running import Shell


@pytest.fixture
def shell(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Shell:
    """Return a function that runs commands with a folder of boards, which does not exist yet."""
    return Shell(monkeypatch, tmp_path)


@pytest.fixture(scope="module")
def one_server() -> Iterator[Server]:
    with Server() as server:
        yield server


@pytest.fixture
def server(one_server: Server) -> Server:
    """An index server without keys."""
    one_server.call("FLUSHALL")
    return one_server
