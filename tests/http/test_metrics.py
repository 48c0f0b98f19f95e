"""A server with keys has every metric, and each metric changes when the event that it counts
happens."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.serving import ADMIN_KEY, JSON, Served

KEY = ADMIN_KEY
EVENTS = "laurels_events_total"


@pytest.fixture
def http(tmp_path: Path) -> Iterator[httpx.Client]:
    """A client with the admin key of a new server, which has one board."""
    with (
        Served(tmp_path / "boards", admin_key=KEY) as server,
        httpx.Client(base_url=server.url, headers={"Authorization": f"Bearer {KEY}"}) as client,
    ):
        client.put("/v1/boards/b", json={}).raise_for_status()
        yield client


def figures(http: httpx.Client) -> dict[tuple[str, ...], float]:
    """Return the values of all samples, by name and labels."""
    answer = http.get("/metrics").raise_for_status()
    assert answer.headers["content-type"].startswith("text/plain; version=")
    return {
        (sample.name, *sample.labels.values()): sample.value
        for family in text_string_to_metric_families(answer.text)
        for sample in family.samples
    }


def test_every_metric_exists(http: httpx.Client) -> None:
    http.get("/v1/boards/b/top").raise_for_status()
    http.post("/v1/boards/b/scores", json=["a", 1])
    http.put("/v1/boards/rooms", json={"scopes": [[], ["room"]]}).raise_for_status()
    assert {name for name, *_ in figures(http)} == {
        EVENTS,
        "laurels_answers_total",
        *(f"laurels_answer_age_seconds_{part}" for part in ("bucket", "count", "sum")),
        "laurels_answer_cache_bytes",
        "laurels_requests_total",
        "laurels_streams_cut_off_total",
        "laurels_writable",
        "laurels_write_failures_total",
        "laurels_clock_leap_seconds",
        "laurels_clock_ahead_seconds",
        "laurels_clock_leaps_total",
        *(
            f"laurels_{spread}_{part}"
            for spread in ("commit_events", "commit_seconds", "read_seconds")
            for part in ("bucket", "count", "sum")
        ),
        "laurels_writes_waiting",
        "laurels_streams",
        "laurels_boards",
        "laurels_members",
        "laurels_memory_bytes",
        "laurels_log_bytes",
        "laurels_log_offset",
        "laurels_snapshot_age_seconds",
        "laurels_board_memory_bytes",
        "laurels_board_scopes",
        "laurels_board_scopes_memory_bytes",
    }


WRITES: list[tuple[str, object, dict[str, int]]] = [
    ("scores", {"member": "ann", "value": 1}, {"applied": 1}),
    ("scores", {"member": "ann", "value": 1, "id": "x"}, {"duplicate": 1}),
    ("scores", {"member": "", "value": 1}, {"refused": 1}),
    (
        "scores",
        [["ann", 1], ["", 1], ["bob", 0], ["ann", 1, None, "x"]],
        {"applied": 2, "refused": 1, "duplicate": 1},
    ),
    ("scores?all_or_nothing=true", [["ann", 1], ["", 1]], {"refused": 2}),
    ("set", {"member": "ann", "value": 100}, {"applied": 1}),
    ("set", {"member": "ann", "value": 5}, {"applied": 1}),
    ("set", {"member": "ann", "value": "x"}, {"refused": 1}),
]


@pytest.mark.parametrize(("path", "body", "expected"), WRITES)
def test_events_are_counted_by_their_outcome(
    http: httpx.Client, path: str, body: object, expected: dict[str, int]
) -> None:
    http.post("/v1/boards/b/scores", json={"member": "ann", "value": 5, "id": "x"})
    before = figures(http)
    http.post(f"/v1/boards/b/{path}", json=body)
    after = figures(http)
    moved = {
        outcome: after[EVENTS, outcome] - before[EVENTS, outcome]
        for outcome in ("applied", "unchanged", "duplicate", "refused")
        if after[EVENTS, outcome] != before[EVENTS, outcome]
    }
    assert moved == expected


def test_events_of_several_boards_are_counted(http: httpx.Client) -> None:
    events = [{"board": "b", "member": member, "value": 1} for member in ("ann", "", "bob")]
    http.post("/v1/scores", json=events).raise_for_status()
    metrics = figures(http)
    assert (metrics[EVENTS, "applied"], metrics[EVENTS, "refused"]) == (2, 1)


def test_requests_are_counted_by_verb_and_status(http: httpx.Client) -> None:
    for path in ("top", "top", "top?limit=x", "standing?member=zed"):
        http.get(f"/v1/boards/b/{path}")
    http.get("/v1/boards/b/top", headers={"Authorization": "Bearer lk_other"})
    http.get("/v1/boards/b/export").raise_for_status()
    metrics = figures(http)
    requests = "laurels_requests_total"
    assert [metrics[requests, status, "top"] for status in ("200", "400", "401")] == [2, 1, 1]
    assert metrics[requests, "404", "standing"] == 1
    assert metrics[requests, "200", "export"] == 1
    assert metrics["laurels_read_seconds_count", "top"] == 4


def test_commits_and_stored_bytes_are_measured(http: httpx.Client) -> None:
    before = figures(http)
    http.post("/v1/boards/b/scores", json=[[f"m{i}", i] for i in range(300)]).raise_for_status()
    http.post("/v1/snapshot", headers=JSON).raise_for_status()
    after = figures(http)
    assert after["laurels_commit_events_sum",] >= before["laurels_commit_events_sum",] + 300
    assert after["laurels_commit_seconds_count",] > before["laurels_commit_seconds_count",]
    assert after["laurels_log_offset",] == before["laurels_log_offset",] + 1
    for name in ("memory_bytes", "log_bytes"):
        assert after[f"laurels_{name}",] > before[f"laurels_{name}",]
    assert after["laurels_board_memory_bytes", "b"] > before["laurels_board_memory_bytes", "b"]
    assert (after["laurels_members",], after["laurels_boards",]) == (300, 1)
    assert 0 <= after["laurels_snapshot_age_seconds",] < 60
    assert after["laurels_writes_waiting",] == 0


def test_open_feeds_are_counted(http: httpx.Client) -> None:
    assert figures(http)["laurels_streams",] == 0
    with http.stream("GET", "/v1/boards/b/live") as live:
        lines = live.iter_lines()
        next(lines)
        assert figures(http)["laurels_streams",] == 1


def test_metrics_need_a_valid_key(http: httpx.Client) -> None:
    for key in ("", "Bearer lk_other"):
        assert http.get("/metrics", headers={"Authorization": key}).status_code == 401
    made = http.post("/v1/keys", json={"name": "watch", "scope": "read"}).json()["key"]
    answer = http.get("/metrics", headers={"Authorization": f"Bearer {made}"})
    assert answer.status_code == 200


def test_scopes_are_counted(http: httpx.Client) -> None:
    board = {"scopes": [[], ["room"], ["zone", "gender"]], "rank_by": "room"}
    http.put("/v1/boards/rooms", json=board).raise_for_status()
    events = [["ann", 1, None, None, {"room": str(room), "zone": "cn"}] for room in range(3)]
    http.post("/v1/boards/rooms/scores", json=events).raise_for_status()
    metrics = figures(http)
    assert metrics["laurels_board_scopes", "rooms", "room"] == 3
    assert metrics["laurels_board_scopes", "rooms", "gender,zone"] == 0
    stats = http.get("/v1/boards/rooms/stats").json()
    assert stats["scopes"] == {"room": 3, "gender,zone": 0}
    nbytes = metrics["laurels_board_scopes_memory_bytes", "rooms"]
    assert nbytes == stats["scopes_nbytes"]
    assert 0 < nbytes < metrics["laurels_board_memory_bytes", "rooms"] == stats["nbytes"]
    assert ("laurels_board_scopes_memory_bytes", "b") not in metrics


def test_a_key_for_some_boards_sees_only_their_metrics(http: httpx.Client) -> None:
    http.put("/v1/boards/secret", json={}).raise_for_status()
    made = http.post("/v1/keys", json={"name": "narrow", "boards": ["b"]}).raise_for_status()
    narrow = {"Authorization": f"Bearer {made.json()['key']}"}
    text = http.get("/metrics", headers=narrow).raise_for_status().text
    samples = [line for line in text.splitlines() if line and not line.startswith("#")]
    assert samples
    assert all('board="b"' in line for line in samples), samples
    assert http.get("/v1/stats", headers=narrow).json()["code"] == "forbidden"
    whole = http.get("/metrics").text
    assert 'laurels_board_memory_bytes{board="secret"}' in whole
    assert "laurels_requests_total" in whole
