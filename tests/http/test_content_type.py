"""A write must declare the type of its body. A page of another origin can then send a write only
after a preflight request."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest

from laurels.server.routing.route import Route
from laurels.server.routing.routes import ROUTES
from tests.serving import Served

ADMIN = "the secret key of the administrator"
EVENT = b'{"member": "alice", "value": 1}'


@pytest.fixture(scope="module")
def server() -> Iterator[Served]:
    with Served("memory:", admin_key=ADMIN) as served:
        yield served


@pytest.fixture(scope="module")
def client(server: Served) -> Iterator[httpx.Client]:
    headers = {"authorization": f"Bearer {ADMIN}"}
    with httpx.Client(base_url=server.url, headers=headers) as opened:
        opened.put("/v1/boards/gifts", json={}).raise_for_status()
        yield opened


@pytest.mark.parametrize(
    "content_type",
    [
        None,
        "text/plain",
        "text/plain;charset=UTF-8",
        "application/x-www-form-urlencoded",
        "multipart/form-data; boundary=x",
        "application/octet-stream",
        "application/jsonp",
        "text/plain, application/json",
        "text/plain; application/json",
        "",
    ],
)
@pytest.mark.parametrize(
    "row",
    [row for row in ROUTES if row.method != "GET"],
    ids=lambda row: f"{row.method} {row.path}",
)
def test_a_write_without_a_content_type_is_refused(
    client: httpx.Client, row: Route, content_type: str | None
) -> None:
    path = row.path.replace("{board}", "gifts").replace("{name}", "nobody")
    headers = {} if content_type is None else {"content-type": content_type}
    for body in (None, EVENT):
        answer = client.request(row.method, path, content=body, headers=headers)
        assert (answer.status_code, answer.json()["code"]) == (415, "unsupported_media_type")


@pytest.mark.parametrize(
    "content_type",
    ["application/json", "Application/JSON; charset=utf-8", "application/x-ndjson"],
)
def test_a_write_with_a_valid_content_type_counts(client: httpx.Client, content_type: str) -> None:
    headers = {"content-type": content_type}
    answer = client.post("/v1/boards/gifts/scores", content=EVENT, headers=headers)
    assert answer.status_code == 200


def test_a_write_without_a_body_needs_a_content_type_too(client: httpx.Client) -> None:
    headers = {"content-type": "application/json"}
    assert client.post("/v1/check", headers=headers).status_code == 200
    assert client.delete("/v1/boards/gifts", headers=headers).status_code == 204
    client.put("/v1/boards/gifts", json={}).raise_for_status()


def test_the_error_names_the_content_type_to_send(client: httpx.Client) -> None:
    problem = client.post("/v1/check").json()
    assert problem["what"] == "the request has no Content-Type"
    assert "Content-Type: application/json" in problem["advice"]
