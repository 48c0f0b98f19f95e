"""What the client does in addition to the contract: it retries, and reports answers that are not
from laurels."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest

import laurels
from laurels.api.aio import AsyncLeaderboards
from laurels.core.commands import (
    ChangeBoard,
    ClearBoard,
    Command,
    ConfirmPayout,
    CreateBoard,
    DeleteBoard,
    DisqualifyMember,
    EraseMember,
    HideEverywhere,
    HideMember,
    Mend,
    RemoveMember,
    SetData,
    ShowEverywhere,
    ShowMember,
    Submit,
    SubmitMany,
    UndeleteBoard,
)
from laurels.errors import (
    Closed,
    Conflict,
    InvalidClock,
    LaurelsError,
    UnknownBoard,
    UnknownUrl,
)
from laurels.errors.service import (
    Overloaded,
    ServerUnreachable,
    ServiceOutdated,
    TooManyRequests,
    Unauthorized,
    UnknownAnswer,
)
from laurels.stores.http import calls
from laurels.stores.http.store import AsyncRemoteStore
from laurels.stores.http.transport import AsyncWire, ServiceAddress
from laurels.wire.requests import BatchTooLong
from tests.client.answering import Script, refusal
from tests.internals import wire_of
from tests.serving import Served

RECEIPT = {"member": "ann", "status": "applied", "window": "all", "offset": 1, "score": 1}


def counted() -> httpx.Response:
    return httpx.Response(200, json={"count": 3})


def batch_answer(size: int, offset: int = 1) -> httpx.Response:
    counts = {"applied": size, "unchanged": 0, "duplicates": 0, "refused": 0, "late": {}}
    answer = {"offset": offset, "window": "all", "receipts": [RECEIPT | {"offset": offset}] * size}
    return httpx.Response(200, json=counts | answer)


def events_of(request: httpx.Request) -> Any:
    return msgspec.json.decode(request.content)


# Every query and command is a request


def test_every_command_has_a_request() -> None:
    event = ("ann", 1, None, None, None)
    commands: list[Command[Any]] = [
        Submit("b", event),
        Submit("b", event, absolute=True),
        SetData("b", "ann", 1),
        RemoveMember("b", "ann"),
        HideMember("b", "ann", "bot"),
        ShowMember("b", "ann"),
        HideEverywhere("ann", "bot"),
        ShowEverywhere("ann"),
        Mend("b", []),
        ConfirmPayout("b", "x", "bank-1"),
        DisqualifyMember("b", "ann", None, None, None, "bot"),
        CreateBoard(laurels.Board("b")),
        ChangeBoard("b", {"title": "B"}),
        ClearBoard("b"),
        DeleteBoard("b"),
        UndeleteBoard("b"),
        EraseMember("ann", "asked", "erased-1"),
    ]
    assert {*map(type, commands)} == {*Command.__subclasses__()} - {SubmitMany}
    paths = [(call.method, call.target) for call in map(calls.command_call, commands)]
    assert len({*paths}) == len(paths)


# Retries


def test_a_query_is_repeated_after_a_broken_connection() -> None:
    script = Script(httpx.ReadError("gone"), httpx.ConnectError("refused"), counted())
    assert script.open().count("b") == 3
    assert script.slept == [0.1, 0.2]


def test_a_query_is_sent_at_most_three_times() -> None:
    script = Script(*[httpx.ConnectError("refused")] * 4)
    with pytest.raises(ServerUnreachable, match="http://boards does not answer") as error:
        script.open().count("b")
    assert len(script.requests) == 3
    assert error.value.retryable


def test_retry_after_is_respected() -> None:
    busy = refusal(503, "overloaded", retry_after="2")
    script = Script(busy, refusal(429, "too_many_requests", retry_after="3"), counted())
    assert script.open().count("b") == 3
    assert script.slept == [2, 3]


@pytest.mark.parametrize("headers", [{}, {"retry_after": "3600"}, {"retry_after": "soon"}])
def test_a_long_or_missing_retry_after_is_left_to_the_caller(headers: dict[str, str]) -> None:
    script = Script(refusal(429, "too_many_requests", **headers))
    with pytest.raises(TooManyRequests):
        script.open().count("b")
    assert script.slept == []


def test_an_event_with_an_id_is_sent_again_under_the_same_key() -> None:
    script = Script(httpx.ReadError("gone"), httpx.Response(200, json=RECEIPT))
    assert script.open().submit("b", "ann", 1, id="x").status == "applied"
    first, again = script.requests
    assert first.headers["idempotency-key"] == again.headers["idempotency-key"] == "key-0"
    assert first.content == again.content


def test_an_event_that_may_have_counted_is_not_sent_again() -> None:
    script = Script(httpx.ReadError("gone"))
    with pytest.raises(ServerUnreachable, match="may have been counted"):
        script.open().submit("b", "ann", 1)
    assert len(script.requests) == 1


@pytest.mark.parametrize(
    "refused",
    [
        httpx.ConnectError("refused"),
        refusal(503, "overloaded", retry_after="1"),
        refusal(503, "stopping", retry_after="1"),
        refusal(429, "too_many_requests", retry_after="1"),
    ],
    ids=["connection", "overloaded", "stopping", "rate"],
)
def test_an_event_that_was_certainly_not_counted_is_sent_again(
    refused: httpx.Response | Exception,
) -> None:
    script = Script(refused, httpx.Response(200, json=RECEIPT))
    assert script.open().submit("b", "ann", 1).score == 1


def test_an_event_is_not_sent_again_after_the_disk_of_the_server_failed() -> None:
    script = Script(refusal(503, "storage_failed", retry_after="1"))
    with pytest.raises(LaurelsError) as error:
        script.open().submit("b", "ann", 1)
    assert error.value.code == "storage_failed"
    assert len(script.requests) == 1


def test_a_batch_is_sent_again_when_all_its_events_have_ids() -> None:
    script = Script(httpx.ReadError("gone"), batch_answer(2))
    assert script.open().submit_many("b", [("ann", 1), ("bob", 1)], key="k").applied == 2
    assert [event["id"] for event in events_of(script.requests[1])] == ["k#0", "k#1"]
    mixed = Script(httpx.ReadError("gone"))
    with pytest.raises(ServerUnreachable):
        mixed.open().submit_many("b", [("ann", 1, None, "x"), ("bob", 1)])


def test_queries_are_retried_on_event_loops() -> None:
    script = Script(httpx.ReadError("gone"), refusal(503, "overloaded", retry_after="1"), counted())
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    async def main() -> int:
        wire = AsyncWire(ServiceAddress("http://boards"), str, sleep, httpx.MockTransport(script))
        store = AsyncRemoteStore(wire_of(script.open()), wire)
        async with AsyncLeaderboards(store) as lb:
            return await lb.count("b")

    assert asyncio.run(main()) == 3
    assert slept == [0.1, 1]


# Batches


def test_a_long_batch_is_sent_in_several_requests() -> None:
    script = Script(batch_answer(10_000, 1), batch_answer(10_000, 2), batch_answer(5, 3))
    receipts = script.open().submit_many("b", [("ann", 1)] * 20_005, key="k")
    assert (len(receipts), receipts.applied, receipts.offset) == (20_005, 20_005, 3)
    assert receipts[10_000].offset == 2
    assert [len(events_of(request)) for request in script.requests] == [10_000, 10_000, 5]
    assert events_of(script.requests[2])[4]["id"] == "k#20004"
    keys = {request.headers["idempotency-key"] for request in script.requests}
    assert len(keys) == 3


@pytest.mark.parametrize("whole", [{"all_or_nothing": True}, {"position": ("file", "1")}])
def test_a_long_batch_that_has_to_be_one_commit_is_refused(whole: dict[str, Any]) -> None:
    script = Script()
    with pytest.raises(BatchTooLong):
        script.open().submit_many("b", [("ann", 1)] * 10_001, **whole)
    assert script.requests == []


def test_an_event_refused_by_the_client_keeps_its_place_in_the_batch() -> None:
    refused = {"member": None, "status": "refused", "window": "all", "offset": 1}
    counts = {"applied": 1, "unchanged": 0, "duplicates": 0, "refused": 1, "late": {}}
    answer = {"offset": 1, "window": "all", "receipts": [refused, RECEIPT]}
    script = Script(httpx.Response(200, json=counts | answer))
    receipts = script.open().submit_many("b", [("bob", 1.5), ("ann", 1)])
    assert events_of(script.requests[0]) == [None, {"member": "ann", "value": 1}]
    assert (receipts[0].member, receipts[0].reason) == ("bob", "invalid_value")
    error = receipts.error(0)
    assert error is not None
    assert str(error) == receipts[0].message
    assert (receipts.applied, receipts.refused, receipts.error(1)) == (1, 1, None)


# Answers of servers that are not laurels


@pytest.mark.parametrize(
    "answer",
    [
        httpx.Response(200, html="<h1>Welcome</h1>"),
        httpx.Response(200, json={"number": 3}),
        httpx.Response(200, json=[1]),
        httpx.Response(301, headers={"Location": "http://elsewhere"}),
        httpx.Response(404, html="<h1>Not found</h1>"),
        httpx.Response(200, content=b"\xff"),
    ],
)
def test_an_answer_of_another_server_is_reported(answer: httpx.Response) -> None:
    with pytest.raises(UnknownAnswer):
        Script(answer).open().count("b")


def test_a_gateway_without_a_server_is_reported_as_an_unreachable_server() -> None:
    with pytest.raises(ServerUnreachable, match="502"):
        Script(httpx.Response(502, html="<h1>Bad gateway</h1>")).open().count("b")


def test_an_unknown_code_of_a_newer_server_raises_the_error_class_of_its_status() -> None:
    with pytest.raises(Conflict) as error:
        Script(refusal(409, "clash_of_suns", "two suns")).open().count("b")
    assert (error.value.code, error.value.status) == ("clash_of_suns", 409)
    assert str(error.value) == "two suns; wait"


def test_errors_of_the_service_are_raised_as_they_are() -> None:
    with pytest.raises(Unauthorized):
        Script(refusal(401, "unauthorized")).open().count("b")
    with pytest.raises(Overloaded):
        Script(refusal(503, "overloaded")).open().count("b")


# The server's address and the key


def test_the_key_is_sent_with_every_request() -> None:
    script = Script(counted())
    script.open(key="lk_x").count("b")
    assert script.requests[0].headers["authorization"] == "Bearer lk_x"


@pytest.mark.parametrize(
    ("url", "environment", "base", "key"),
    [
        ("http://lk_a@boards:80/", None, "http://boards:80", "lk_a"),
        ("http://lk_a@boards", "lk_b", "http://boards", "lk_a"),
        ("HTTPS://boards/behind/", "lk_b", "https://boards/behind", "lk_b"),
        ("http://[::1]:8080", None, "http://[::1]:8080", None),
        ("http://a%40b@boards", "", "http://boards", "a@b"),
    ],
)
def test_a_key_may_be_given_in_the_url_or_in_the_environment(
    monkeypatch: pytest.MonkeyPatch, url: str, environment: str | None, base: str, key: str | None
) -> None:
    monkeypatch.delenv("LAURELS_KEY", raising=False)
    if environment is not None:
        monkeypatch.setenv("LAURELS_KEY", environment)
    with laurels.open(url) as lb:
        assert wire_of(lb).address == ServiceAddress(base, key)


@pytest.mark.parametrize("url", ["http://", "http://x:port", "http://x/?a=1", "http://x/#a"])
def test_an_invalid_address_is_refused(url: str) -> None:
    with pytest.raises(UnknownUrl):
        laurels.open(url)


def test_a_refused_url_does_not_show_its_key() -> None:
    with pytest.raises(UnknownUrl) as error:
        laurels.open("http://lk_secret@x/?a=1")
    assert "lk_secret" not in str(error.value)


@pytest.mark.parametrize("settings", [{"clock": "event"}, {"log_keep": True}])
def test_a_server_has_its_own_clock_and_log(settings: dict[str, Any]) -> None:
    with pytest.raises(InvalidClock, match="server"):
        laurels.open("http://boards", **settings)


def test_an_impossible_board_name_sends_no_request() -> None:
    lb = Script().open()
    for board in ("a/b", "", "..", "ä"):
        with pytest.raises(UnknownBoard):
            lb.top(board)


def test_an_unreachable_server_is_reported() -> None:
    with laurels.open("http://127.0.0.1:9") as lb, pytest.raises(ServerUnreachable):
        lb.boards()


def test_a_client_cannot_be_used_after_a_fork() -> None:
    lb = Script(counted()).open()
    if (child := os.fork()) == 0:
        try:
            lb.count("b")
        except LaurelsError as error:
            os._exit(7 if error.code == "forked" else 8)
        os._exit(9)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7


def test_the_error_without_httpx_names_the_extra_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("laurels.config.service.find_spec", lambda _: None)
    with pytest.raises(LaurelsError, match=r"pip install '.\[client\]'"):
        laurels.open("http://boards")


def test_a_server_that_ends_and_a_closed_client_raise_different_errors(tmp_path: Path) -> None:
    with Served(tmp_path / "boards") as served, laurels.open(served.url) as lb:
        lb.create(laurels.Board("b"))
        assert lb.submit("b", "ann", 1, id="x").status == "applied"
        served.close()
        with pytest.raises(ServerUnreachable):
            lb.submit("b", "ann", 1, id="x")
        lb.close()
        with pytest.raises(Closed):
            lb.boards()


def test_threads_beside_an_event_loop_can_use_the_same_boards(tmp_path: Path) -> None:
    async def main(url: str) -> list[laurels.Board]:
        async with laurels.open_async(url) as lb:
            await lb.create(laurels.Board("b"))
            return await asyncio.to_thread(lb.sync.boards)

    with Served(tmp_path / "boards") as served:
        assert asyncio.run(main(served.url)) == [laurels.Board("b")]


def test_a_member_in_no_window_has_a_card_without_standings(tmp_path: Path) -> None:
    with Served(tmp_path / "boards") as served, laurels.open(served.url) as lb:
        lb.create(laurels.Board("b", windows=["all", "day"]))
        assert lb.card("b", "nobody") == {"all": None, "day": None}


def test_an_older_service_that_cannot_list_changed_boards_is_reported() -> None:
    """The client raises an error. It could read the changes of every board instead, but a sink asks
    so often that this would put too much load on the service."""
    script = Script(refusal(404, "not_found", "there is no /v1/changes"))
    with pytest.raises(ServiceOutdated, match=r"GET /v1/changes.*; upgrade the service") as caught:
        script.open().changed_boards()
    assert not caught.value.retryable, "not retryable, so that a sink ends"
    script = Script(refusal(403, "forbidden"))
    with pytest.raises(LaurelsError) as other:
        script.open().changed_boards()
    assert other.value.code == "forbidden"
