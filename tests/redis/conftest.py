"""Fixtures: an index server that all tests of a file share, and a clock that only the tests
move."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import laurels

from .servers import Server

NOW = 1_795_219_200_000
"""The start of Saturday, 21 November 2026, UTC."""


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    """Run one server for all tests of a file."""
    with Server() as running:
        yield running


@pytest.fixture
def emptied(server: Server) -> None:
    """Remove everything that earlier tests wrote to the server."""
    server.call("FLUSHALL")


@pytest.fixture
def clock() -> laurels.ManualClock:
    return laurels.ManualClock(NOW)
