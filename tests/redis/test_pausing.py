"""Pausing a server stops it at once, so that tests of a server that does not answer do
not depend on chance."""

from __future__ import annotations

from pathlib import Path

from .servers import Server


def test_all_threads_of_a_paused_server_have_stopped(server: Server) -> None:
    tasks = Path(f"/proc/{server.pid}/task")
    for _ in range(200):
        server.pause()
        stats = [(task / "stat").read_text() for task in tasks.iterdir()]
        server.resume()
        assert len(stats) > 1
        assert {stat.rpartition(")")[2].split()[0] for stat in stats} == {"T"}
        assert server.call("PING") == b"PONG"
