"""Changes over HTTP: pages, a stream that can be resumed where it ended, and the permission to read
them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.http.listening import feed
from tests.serving import ADMIN_KEY, JSON, Served

ADMIN = {**JSON, "authorization": f"Bearer {ADMIN_KEY}"}
LIVE = "/v1/boards/b/changes/live"


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Served]:
    with Served(tmp_path, admin_key=ADMIN_KEY) as served:
        definition = {"columns": [{"name": "s", "scale": 2}], "changes": "1h"}
        put = httpx.put(f"{served.url}/v1/boards/b", json=definition, headers=ADMIN)
        put.raise_for_status()
        httpx.put(f"{served.url}/v1/boards/other", json={}, headers=ADMIN).raise_for_status()
        yield served


def submit(url: str, member: str, value: Any) -> None:
    event = {"member": member, "value": value}
    httpx.post(f"{url}/v1/boards/b/scores", json=event, headers=ADMIN).raise_for_status()


def get(url: str, headers: dict[str, str] = ADMIN, **parameters: Any) -> httpx.Response:
    return httpx.get(f"{url}/v1/boards/b/changes", params=parameters, headers=headers)


def test_changes_are_read_in_pages_over_http(server: Served) -> None:
    submit(server.url, "ann", "1.50")
    submit(server.url, "bob", 2)
    first = get(server.url, limit=2).json()
    assert [change["kind"] for change in first["changes"]] == ["create", "event"]
    assert first["more"] is True
    assert '"delta":1.50' in get(server.url, limit=2).text
    rest = get(server.url, after=first["cursor"]).json()
    assert [change["member"] for change in rest["changes"]] == ["bob"]
    assert rest["more"] is False
    assert get(server.url, after=rest["cursor"]).json()["changes"] == []


@pytest.mark.parametrize(
    ("parameters", "status", "code"),
    [
        ({"after": "x"}, 400, "invalid_cursor"),
        ({"after": "initial.zzz"}, 400, "invalid_cursor"),
        ({"limit": 0}, 400, "invalid_limit"),
        ({"limit": "many"}, 400, "invalid_query"),
        ({"before": "x"}, 400, "invalid_query"),
        ({"after": "0123456789abcdef~1-0-e"}, 409, "cursor_diverged"),
    ],
)
def test_invalid_requests_for_changes_are_refused(
    server: Served, parameters: Any, status: int, code: str
) -> None:
    answer = get(server.url, **parameters)
    assert (answer.status_code, answer.json()["code"]) == (status, code)


def test_a_board_without_changes_is_an_error(server: Served) -> None:
    for path in ("changes", "changes/live"):
        answer = httpx.get(f"{server.url}/v1/boards/other/{path}", headers=ADMIN)
        assert (answer.status_code, answer.json()["code"]) == (409, "changes_not_kept")


def test_a_key_for_other_boards_is_refused(server: Served) -> None:
    made = httpx.post(
        f"{server.url}/v1/keys",
        json={"name": "other", "scope": "read", "boards": ["other"]},
        headers=ADMIN,
    )
    made.raise_for_status()
    limited = {"authorization": f"Bearer {made.json()['key']}"}
    absent = httpx.get(f"{server.url}/v1/boards/absent/changes", headers=limited)
    for path in ("changes", "changes/live"):
        answer = httpx.get(f"{server.url}/v1/boards/b/{path}", headers=limited)
        assert answer.status_code == absent.status_code
        assert answer.json()["code"] == absent.json()["code"]


def test_a_key_for_some_boards_gets_no_names_of_others(server: Served) -> None:
    made = httpx.post(
        f"{server.url}/v1/keys",
        json={"name": "some", "scope": "read", "boards": ["mine*"]},
        headers=ADMIN,
    )
    some = {"authorization": f"Bearer {made.raise_for_status().json()['key']}"}
    begun = httpx.get(f"{server.url}/v1/changes", headers=some).json()
    assert begun["boards"] is None
    for name in ("mine1", "mine2", "others"):
        board = {"changes": "1h"}
        httpx.put(f"{server.url}/v1/boards/{name}", json=board, headers=ADMIN).raise_for_status()
    after = {"after": begun["cursor"]}
    answers = [
        httpx.get(f"{server.url}/v1/changes", params=after, headers=headers).json()
        for headers in (some, ADMIN)
    ]
    assert [sorted(answer["boards"]) for answer in answers] == [
        ["mine1", "mine2"],
        ["mine1", "mine2", "others"],
    ]


def test_a_stream_resumes_where_it_ended(server: Served) -> None:
    submit(server.url, "ann", 1)

    async def main() -> None:
        async with feed(server.url, LIVE, key=ADMIN_KEY) as stream:
            begun = await stream.next()
            assert [change["kind"] for change in begun.document["changes"]] == ["create", "event"]
            await asyncio.to_thread(submit, server.url, "bob", 1)
            more = await stream.next()
            assert [change["member"] for change in more.document["changes"]] == ["bob"]
        await asyncio.to_thread(submit, server.url, "cid", 1)
        async with feed(server.url, LIVE, last=more.number, key=ADMIN_KEY) as stream:
            last = await stream.next()
            assert [change["member"] for change in last.document["changes"]] == ["cid"]

    asyncio.run(main())


def test_a_stream_of_initial_changes_resumes_within_them(server: Served) -> None:
    """The stream is interrupted after the first page of current entries. Changes that were written
    in the meantime follow the entries."""
    events = [{"member": f"m{i:03}", "value": 1} for i in range(700)]
    scores = f"{server.url}/v1/boards/b/scores"
    httpx.post(scores, json=events, headers=ADMIN).raise_for_status()
    path = f"{LIVE}?initial=true"
    changes: list[dict[str, Any]] = []

    async def main() -> None:
        async with feed(server.url, path, key=ADMIN_KEY) as stream:
            first = await stream.next()
            changes.extend(first.document["changes"])
        assert {change["kind"] for change in changes} == {"initial"}
        await asyncio.to_thread(submit, server.url, "m000", 2)
        async with feed(server.url, path, last=first.number, key=ADMIN_KEY) as stream:
            while changes[-1]["kind"] != "event":
                changes.extend((await stream.next()).document["changes"])
            await asyncio.to_thread(submit, server.url, "m001", 3)
            changes.extend((await stream.next()).document["changes"])

    asyncio.run(main())
    assert [change["kind"] for change in changes] == [
        *["initial"] * 700,
        *["initial_end", "event", "event"],
    ]
    assert sorted(change["member"] for change in changes[:700]) == [e["member"] for e in events]
    assert [(each["member"], each["score"]) for each in changes[701:]] == [("m000", 3), ("m001", 4)]


def test_a_stream_ends_with_its_board(server: Served) -> None:
    async def main() -> None:
        async with feed(server.url, f"{LIVE}?after=now", key=ADMIN_KEY) as stream:
            await asyncio.to_thread(submit, server.url, "ann", 1)
            assert (await stream.next()).kind == "changes"
            await asyncio.to_thread(httpx.delete, f"{server.url}/v1/boards/b", headers=ADMIN)
            ended = await stream.next()
            assert [change["kind"] for change in ended.document["changes"]] == ["delete"]
            assert (await stream.next()).kind == "end"
            assert b"event" not in await stream.rest()
        again = httpx.get(
            f"{server.url}{LIVE}", headers={**ADMIN, "last-event-id": str(ended.number)}
        )
        assert (again.status_code, again.json()["code"]) == (410, "board_deleted")

    asyncio.run(main())


def test_a_stream_of_a_board_without_changes_to_come_ends_with_an_error(server: Served) -> None:
    """Before the board is deleted, it is changed to keep no changes. So there is no change of the
    kind `delete`."""

    async def main() -> None:
        async with feed(server.url, f"{LIVE}?after=now", key=ADMIN_KEY) as stream:
            await asyncio.to_thread(submit, server.url, "ann", 1)
            assert (await stream.next()).kind == "changes"
            path = f"{server.url}/v1/boards/b"
            for call in (
                lambda: httpx.patch(path, json={"changes": ""}, headers=ADMIN),
                lambda: httpx.delete(path, headers=ADMIN),
            ):
                (await asyncio.to_thread(call)).raise_for_status()
            ended = await stream.next()
            assert ended.kind == "problem"
            assert ended.document["code"] in ("changes_not_kept", "unknown_board")
            assert b"event" not in await stream.rest()

    asyncio.run(main())


def test_a_key_for_some_boards_sees_no_other_deleted_boards(server: Served) -> None:
    made = httpx.post(
        f"{server.url}/v1/keys",
        json={"name": "some", "scope": "read", "boards": ["mine*"]},
        headers=ADMIN,
    )
    some = {"authorization": f"Bearer {made.raise_for_status().json()['key']}"}
    for name in ("mine", "others"):
        board = f"{server.url}/v1/boards/{name}"
        httpx.put(board, json={"changes": "1h"}, headers=ADMIN).raise_for_status()
        httpx.delete(board, headers=ADMIN).raise_for_status()
    path = f"{server.url}/v1/changes/deleted"
    listed = {each["name"]: each for each in httpx.get(path, headers=ADMIN).json()}
    assert set(listed) == {"mine", "others"}
    assert [each["name"] for each in httpx.get(path, headers=some).json()] == ["mine"]
    for name, status in (("mine", 200), ("others", 404)):
        answer = httpx.get(
            f"{server.url}/v1/boards/{name}/changes",
            params={"after": listed[name]["cursor"]},
            headers=some,
        )
        absent = httpx.get(f"{server.url}/v1/boards/absent/changes", headers=some)
        assert answer.status_code == (status if status == 200 else absent.status_code)
