"""The log lines of requests have the caller, the address and the trace id. Clients cannot forge log
lines."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import pytest

from laurels.errors.service import TooManyRequests
from laurels.server.admission.admission import Admission
from laurels.server.admission.limits import Rates
from laurels.server.process.settings import Settings
from laurels.server.requests.tracing import trace_of
from tests.http.process import Process
from tests.serving import ADMIN_KEY, Served

TRACE = "0af7651916cd43dd8448eb211c80319c"
PARENT = "b7ad6b7169203331"
TRACEPARENT = f"00-{TRACE}-{PARENT}-01"


def logged(output: str) -> list[dict[str, Any]]:
    lines = [json.loads(line) for line in output.splitlines() if line.startswith("{")]
    return [line for line in lines if line["event"] == "request"]


def test_a_log_line_has_the_client_and_the_trace(tmp_path: Path) -> None:
    options = ("--log-requests", "--log-format", "json", "--trusted-proxy", "127.0.0.1")
    with Process(tmp_path, *options, LAURELS_ADMIN_KEY=ADMIN_KEY) as server:
        bearer = {"Authorization": f"Bearer {ADMIN_KEY}"}
        sent = bearer | {"traceparent": TRACEPARENT, "X-Forwarded-For": "6.6.6.6, 198.51.100.7"}
        answer = httpx.get(f"{server.url}/v1/boards", headers=sent)
        httpx.get(f"{server.url}/v1/boards", headers=bearer)
        _, output = server.end()
    traced, plain = logged(output)
    assert traced["client"] == "198.51.100.7"
    assert (traced["trace_id"], traced["parent_id"]) == (TRACE, PARENT)
    assert answer.headers["traceresponse"] == f"00-{TRACE}-{traced['span_id']}-01"
    assert plain["client"] == "127.0.0.1"
    assert "trace_id" not in plain


def test_an_id_with_a_newline_is_logged_as_one_line(tmp_path: Path) -> None:
    with Process(tmp_path, "--log-requests") as server:
        httpx.get(f"{server.url}/v1/boards/x%0Ainjected%1B[2J/top")
        _, output = server.end()
    assert not any(line.startswith("injected") for line in output.splitlines())
    assert "\x1b[2J" not in output
    assert "x\\ninjected" in output


@pytest.mark.parametrize(
    "traceparent",
    [
        None,
        "",
        "00",
        f"ff-{TRACE}-{PARENT}-01",
        f"00-{'0' * 32}-{PARENT}-01",
        f"00-{TRACE}-{'0' * 16}-01",
        f"00-{TRACE.upper()}-{PARENT}-01",
        f"00-{TRACE}-{PARENT}-01-more",
        f"00-{TRACE}-{PARENT}-01\n",
        f"01-{TRACE}-{PARENT}-01-{'x' * 1_000}",
    ],
)
def test_a_malformed_traceparent_is_ignored(traceparent: str | None) -> None:
    assert trace_of(traceparent, "id") is None


def test_a_later_version_of_a_traceparent_is_read_as_far_as_it_is_known() -> None:
    trace = trace_of(f"cc-{TRACE}-{PARENT}-01-what-comes", "id")
    assert trace is not None
    assert trace.trace_id == TRACE


def request(client: str) -> Any:
    """Return a request that has only the attributes that admission control reads."""
    return SimpleNamespace(client=client, headers={})


def test_an_address_is_limited_before_its_key_is_checked() -> None:
    admission = Admission(Settings(address_rate=1), lambda: 0.0)
    for suffix in (1, 2):
        admission.take_request(request(f"[2001:db8::{suffix}]:9"))
    with pytest.raises(TooManyRequests):
        # another address of the same /64 network
        admission.take_request(request("[2001:db8::3]:9"))
    admission.take_request(request("[2001:db8:0:1::3]:9"))
    admission.take_request(request("203.0.113.9:9"))


def test_guessing_keys_is_rate_limited_but_a_valid_key_is_not() -> None:
    with Served("memory:", admin_key=ADMIN_KEY) as served, httpx.Client() as http:
        wrong = {"Authorization": "Bearer lk_wrong"}
        statuses = [http.get(f"{served.url}/v1/boards", headers=wrong) for _ in range(200)]
        codes = {answer.status_code for answer in statuses}
        good = http.get(f"{served.url}/v1/boards", headers={"Authorization": f"Bearer {ADMIN_KEY}"})
    assert statuses[0].status_code == 401
    assert codes == {401, 429}
    assert good.status_code == 200


def test_buckets_are_bounded() -> None:
    rates = Rates(1.0, 1, lambda: 0.0)
    for number in range(70_000):
        rates.take(f"address {number}", None)
    assert rates.count <= 65_536
    with pytest.raises(TooManyRequests):
        rates.take("address 69999", None)
