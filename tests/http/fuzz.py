"""Valid and invalid requests, generated from the OpenAPI description of the service. Every answer
has to be declared in the description.

    python -m tests.http.fuzz --minutes 10
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import schemathesis
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.core.result import Ok
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from tests.serving import ADMIN_KEY, JSON, Served

KEY = ADMIN_KEY
HEADERS = {"Authorization": f"Bearer {KEY}", **JSON}
CHECKS: list[Any] = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
]
ENDLESS = "/v1/boards/{board}/live"
KNOWN: dict[str, list[str]] = {
    "board": ["b", "several", "gifts"],
    "member": ["ann", "bob"],
    "window": ["all", "day", "3h", "*"],
    "low": ["1", "1,2"],
    "high": ["9", "9,1"],
    "percent": ["50"],
    "value": ["5", "1.25", "2e1"],
    "name": ["key"],
    "period": ["2026-11-20"],
    "room": ["42", "1"],
    "zone": ["cn"],
    "by": ["room"],
    "scope": ["room", "", "gender,zone"],
}
"""Values that exist on the server. Some of them are put into requests, so that not every request is
refused."""
BOARDS: dict[str, dict[str, Any]] = {
    "b": {"windows": ["all", "day", "3h=rolling:3h/1h"], "columns": [{"name": "p", "scale": 2}]},
    "gifts": {"scopes": [[], ["room"], ["zone", "gender"]], "rank_by": "room"},
    "several": {"columns": [{"name": "p"}, {"name": "q", "op": "best", "order": "asc"}]},
}


class Fuzz:
    """A service with its description. It counts how often each operation answered with each
    status."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._schema = schemathesis.openapi.from_url(f"{url}/openapi.json")
        self.statuses: Counter[tuple[str, int]] = Counter()
        self._stock()

    def _stock(self) -> None:
        """Create the boards that requests use, unless they exist, and write some scores."""
        with httpx.Client(base_url=self._url, headers=HEADERS) as http:
            for name, definition in BOARDS.items():
                http.put(f"/v1/boards/{name}?on_exists=accept", json=definition)
            http.post("/v1/boards/b/scores", json=[["ann", "5.25"], ["bob", 3]])
            http.post("/v1/boards/several/scores", json=[["ann", [5, 2]], ["bob", [5, 1]]])
            labels = {"room": "42", "zone": "cn", "gender": "f"}
            http.post("/v1/boards/gifts/scores", json=[["ann", 5, None, None, labels]])

    def operations(self) -> Iterator[Any]:
        """Yield all operations except streams without an end."""
        for each in self._schema.get_all_operations():
            assert isinstance(each, Ok), each
            operation = each.ok()
            if operation.path != ENDLESS:
                yield operation

    def run(self, operation: Any, number: int, examples: int) -> None:
        """Send this many generated requests to an operation. Raise an error if an answer
        contradicts the description."""
        self._stock()
        modes = [GenerationMode.POSITIVE]
        if operation.query or operation.body:  # a path takes any text, so it cannot be invalid
            modes.append(GenerationMode.NEGATIVE)
        for mode in modes:
            made = operation.as_strategy(generation_mode=mode)
            self._judged(operation, made, number, examples)()

    def _judged(self, operation: Any, made: Any, number: int, examples: int) -> Callable[[], None]:
        values = st.fixed_dictionaries(
            {name: st.sampled_from([*each, *each, None]) for name, each in KNOWN.items()}
        )

        @seed(number)
        @settings(
            max_examples=examples,
            deadline=None,
            database=None,
            phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        )
        @given(case=made, values=values)
        def judge(case: Any, values: dict[str, str | None]) -> None:
            if operation.method.upper() == "DELETE":
                self._stock()
            _name_scope(case, operation.definition.raw["parameters"], values["room"])
            for place in _places(case):
                place.update(
                    {name: value for name, value in values.items() if value and name in place}
                )
            answer = case.call(headers=HEADERS)
            self.statuses[operation.label, answer.status_code] += 1
            case.validate_response(answer, checks=CHECKS)

        return judge


def _name_scope(case: Any, described: list[dict[str, Any]], room: str | None) -> None:
    """Replace the labels in a request by those of an existing scope, in its query and in its
    events."""
    if room is None:
        return
    if any(each["name"] == "labels" and "explode" in each for each in described):
        names = {each["name"] for each in described}
        others = {name: value for name, value in (case.query or {}).items() if name in names}
        case.query = {**others, "room": room}
    for event in case.body if isinstance(case.body, list) else [case.body]:
        if isinstance(event, dict) and isinstance(event.get("labels"), dict):
            event["labels"] = {"room": room}


def _places(case: Any) -> Iterator[dict[str, Any]]:
    """Yield the dicts in the path, the query and the body of a request. The caller replaces some
    of their values by values of `KNOWN`, so that the request is about existing data."""
    for place in (case.path_parameters, case.query, case.body):
        for each in place if isinstance(place, list) else [place]:
            if isinstance(each, dict):
                yield each


def main() -> int:
    """Test all operations for the given number of minutes, in rounds with new requests. Print the
    number of answers by status."""
    parser = argparse.ArgumentParser(description="Send generated requests to a new server.")
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--seed", type=int, default=None)
    options = parser.parse_args()
    number = random.randrange(1 << 32) if options.seed is None else options.seed
    until = time.monotonic() + 60 * options.minutes
    failed: dict[str, str] = {}
    with (
        tempfile.TemporaryDirectory() as folder,
        Served(Path(folder) / "boards", admin_key=KEY) as server,
    ):
        fuzz = Fuzz(server.url)
        first = number
        while time.monotonic() < until:
            for operation in fuzz.operations():
                try:
                    fuzz.run(operation, number, examples=50)
                except Exception as error:
                    failed.setdefault(operation.label, f"seed {number}: {error}")
            number += 1
        httpx.post(f"{server.url}/v1/check", headers=HEADERS, timeout=60).raise_for_status()
    for (label, status), count in sorted(fuzz.statuses.items()):
        print(f"{count:8,}  {status}  {label}")
    print(
        f"{fuzz.statuses.total():,} requests, seeds {first} to {number - 1}, {len(failed)} failed"
    )
    for label, why in failed.items():
        print(f"\n{label}: {why}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
