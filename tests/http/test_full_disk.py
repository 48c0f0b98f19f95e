"""While the disk is full, the readiness check and the metrics report it. Afterwards the server
recovers without help."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx
import pytest

from laurels.errors import StorageFailed
from laurels.stores.local.log.sqlite import SqliteLog
from tests.serving import Served


class Disk:
    full = False


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Disk:
    """A disk on which SQLite cannot write while `full` is true."""
    disk = Disk()

    def refusing(write: Any) -> Any:
        def call(log: SqliteLog, *values: Any) -> Any:
            if disk.full:
                raise StorageFailed("the log could not be written (database or disk is full)")
            return write(log, *values)

        return call

    for name in ("append", "set_note"):
        monkeypatch.setattr(SqliteLog, name, refusing(getattr(SqliteLog, name)))
    return disk


def _metric(url: str, name: str) -> float:
    lines = httpx.get(f"{url}/metrics").text.splitlines()
    return float(next(line.split()[1] for line in lines if line.startswith(f"{name} ")))


def test_readiness_and_metrics_report_a_full_disk_and_recover(tmp_path: Path, disk: Disk) -> None:
    with Served(tmp_path / "boards") as server:
        httpx.put(f"{server.url}/v1/boards/b", json={}).raise_for_status()
        assert httpx.get(f"{server.url}/readyz").status_code == 200
        assert _metric(server.url, "laurels_writable") == 1

        disk.full = True
        event = {"member": "a", "value": 5}
        assert httpx.post(f"{server.url}/v1/boards/b/scores", json=event).status_code == 503
        ready = httpx.get(f"{server.url}/readyz")
        assert (ready.status_code, ready.json()["code"]) == (503, "storage_failed")
        assert "disk is full" in ready.text
        assert str(tmp_path) not in ready.text
        assert httpx.get(f"{server.url}/healthz").status_code == 200
        assert httpx.get(f"{server.url}/v1/boards/b/top").status_code == 200
        assert _metric(server.url, "laurels_writable") == 0
        assert _metric(server.url, "laurels_write_failures_total") >= 1

        # the readiness check notices that there is room again, without a write of a client
        disk.full = False
        assert httpx.get(f"{server.url}/readyz").status_code == 200
        assert _metric(server.url, "laurels_writable") == 1
        answer = httpx.post(f"{server.url}/v1/boards/b/scores", json=event)
        assert answer.json()["rank"] == 1
