"""The example for FastAPI runs without changes."""

import importlib.util
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

EXAMPLE = Path(__file__).parent.parent.parent / "examples" / "fastapi_app.py"


@pytest.fixture
def client(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setenv("BOARDS", str(tmp_path / "boards"))
    spec = importlib.util.spec_from_file_location("fastapi_app", EXAMPLE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    with TestClient(module.app) as client:
        yield client


def test_the_example_serves_exact_answers(client: TestClient) -> None:
    receipt = client.post("/scores", params={"member": "alice", "points": "12.50"})
    assert (receipt.status_code, receipt.json()["score"]) == (200, "12.50")
    client.post("/scores", params={"member": "bob", "points": "12.51"})
    page = client.get("/top").json()
    assert [(e["rank"], e["member"], e["score"]) for e in page["entries"]] == [
        (1, "bob", "12.51"),
        (2, "alice", "12.50"),
    ]
    assert page["total"] == 2
    assert client.get("/members/bob").json()["is_first"] is True
    assert client.get("/members/nobody").status_code == 404


def test_the_example_answers_errors_by_their_code(client: TestClient) -> None:
    wrong = client.post("/scores", params={"member": "alice", "points": "1.234"})
    assert (wrong.status_code, wrong.json()["code"]) == (400, "too_many_places")
    assert client.get("/top", params={"window": "year"}).json()["code"] == "unknown_window"


def test_the_example_describes_its_answers(client: TestClient) -> None:
    paths = client.get("/openapi.json").json()["paths"]
    page = paths["/top"]["get"]["responses"]["200"]["content"]["application/json"]["schema"]
    assert set(page["properties"]) == {"entries", "total", "as_of", "next", "certain"}
