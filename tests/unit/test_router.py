"""The router finds the handler of each path."""

from __future__ import annotations

import pytest

from laurels.server.routing.router import Router


@pytest.fixture
def router() -> Router[str]:
    router: Router[str] = Router()
    for method, path in [
        ("GET", "/"),
        ("GET", "/v1/boards"),
        ("GET", "/v1/boards/{board}"),
        ("PUT", "/v1/boards/{board}"),
        ("GET", "/v1/boards/{board}/top"),
        ("DELETE", "/v1/keys/{name}"),
    ]:
        router.put(method, path, f"{method} {path}")
    return router


@pytest.mark.parametrize(
    ("path", "row", "part"),
    [
        ("/", "GET /", ""),
        ("/v1/boards", "GET /v1/boards", ""),
        ("/v1/boards/gifts", "GET /v1/boards/{board}", "gifts"),
        ("/v1/boards/gifts/top", "GET /v1/boards/{board}/top", "gifts"),
        ("/v1/boards/boards", "GET /v1/boards/{board}", "boards"),
    ],
)
def test_a_path_matches_its_route(router: Router[str], path: str, row: str, part: str) -> None:
    match = router.find(path)
    assert match is not None
    assert (match.methods["GET"], match.part) == (row, part)


@pytest.mark.parametrize(
    "path",
    ["", "/v1", "/v1/", "/v1/boards/", "/v1/boards//top", "/v1/boards/{}/none", "/v1/keys", "//"],
)
def test_other_paths_match_no_route(router: Router[str], path: str) -> None:
    assert router.find(path) is None


def test_a_route_lists_its_methods(router: Router[str]) -> None:
    match = router.find("/v1/boards/gifts")
    assert match is not None
    assert set(match.methods) == {"GET", "PUT"}
    deleted = router.find("/v1/keys/game")
    assert deleted is not None
    assert "GET" not in deleted.methods
