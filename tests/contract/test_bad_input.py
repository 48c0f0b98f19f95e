"""Each kind of bad input has its own stable code and a message that says what to do, and changes no
state.

All tests of this file share one deployment of each kind. At the end, the deployment must return the
same state as at the beginning. If that fails, run the tests alone, one by one, to find the
one whose refused calls change the state.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from itertools import repeat
from typing import Any

import pytest

import laurels
from laurels.errors import LaurelsError
from tests.comparison import Everything, everything
from tests.contract.conftest import NOW_MS
from tests.contract.deployments import IMPLEMENTATIONS, Deployment, Implementation

# Every event of these batches is refused, and laurels warns about such batches.
pytestmark = pytest.mark.filterwarnings("ignore::laurels.errors.AllEventsRefused")

LIMIT = 2**53 - 1
LATEST_MS = 250_246_627_200_000
"""The first instant of the year 9900."""
Act = Callable[[laurels.Leaderboards], object]
State = tuple[Everything, int, list[int]]


@dataclass(frozen=True)
class Ready:
    """A deployment on which tests try bad input."""

    lb: laurels.Leaderboards

    def refuses(self, act: Act, code: str) -> LaurelsError:
        with pytest.raises(LaurelsError) as error:
            act(self.lb)
        assert error.value.code == code
        assert len(str(error.value)) > len(code)
        return error.value


@pytest.fixture(scope="module", params=IMPLEMENTATIONS, ids=lambda each: each.name)
def implementation(request: pytest.FixtureRequest) -> Implementation:
    """Return each implementation once, for all tests of this file."""
    chosen: Implementation = request.param
    return chosen


@pytest.fixture(scope="module")
def ready(
    implementation: Implementation, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Ready]:
    """Create a board `b` with two decimal places and the windows all and day. One member has the
    highest allowed score. At the end, check that the tests have changed nothing."""
    folder, clock = tmp_path_factory.mktemp("ready"), laurels.ManualClock(NOW_MS)
    with Deployment(implementation, folder, clock) as deployment:
        lb, column = deployment.lb, laurels.Column(scale=2)
        lb.create(laurels.Board("b", columns=[column], windows=["all", "day"], dedupe_max=1))
        lb.create(laurels.Board("days", windows=["day"]))
        lb.create(laurels.Board("kept", columns=[laurels.Column(op="last", min=0, max=5)]))
        lb.submit("b", "top", f"{LIMIT // 100}.{LIMIT % 100:02}", id="the only id")
        lb.submit("days", "ann", 1)
        before = state(lb)
        yield Ready(lb)
        assert state(lb) == before, "a refused operation has changed the state"


def anything(value: object) -> Any:
    """Return a value that a caller without a type checker may pass."""
    return value


def state(lb: laurels.Leaderboards) -> State:
    """Return the whole readable state except the offset, because the log may have an entry for a
    refusal."""
    remembered = [lb.stats(board.name).remembered for board in lb.boards()]
    return everything(lb), len(lb.boards()), remembered


def submit(**wrong: Any) -> Act:
    """Return a call that submits an event, which is valid except for the given fields."""
    event = {"member": "ann", "value": 1, **wrong}
    return lambda lb: lb.submit("b", **event)


EVENTS: list[tuple[dict[str, Any], str]] = [
    ({"member": ""}, "member_empty"),
    ({"member": "x" * 129}, "member_too_long"),
    ({"member": "é" * 65}, "member_too_long"),
    ({"member": "\ud800"}, "member_not_utf8"),
    ({"member": b"ann"}, "invalid_member"),
    ({"member": None}, "invalid_member"),
    ({"member": 7}, "invalid_member"),
    ({"id": ""}, "id_empty"),
    ({"id": "x" * 129}, "id_too_long"),
    ({"id": "x\udfff"}, "id_not_utf8"),
    ({"id": 7}, "invalid_id"),
    ({"value": "1.234"}, "too_many_places"),
    ({"value": Decimal("0.001")}, "too_many_places"),
    ({"value": "1e-1000000"}, "too_many_places"),
    ({"value": Decimal("1e-1000000")}, "too_many_places"),
    ({"value": Decimal("NaN")}, "not_finite"),
    ({"value": Decimal("sNaN")}, "not_finite"),
    ({"value": Decimal("-Infinity")}, "not_finite"),
    ({"value": "nan"}, "not_finite"),
    ({"value": "1e1000000"}, "value_out_of_range"),
    ({"value": Decimal("1e1000000")}, "value_out_of_range"),
    ({"value": Decimal("-1e1000000")}, "value_out_of_range"),
    ({"value": 10**5000}, "value_out_of_range"),
    ({"value": LIMIT // 100 + 1}, "value_out_of_range"),
    ({"value": 1.5}, "invalid_value"),
    ({"value": float("inf")}, "not_finite"),
    ({"value": True}, "invalid_value"),
    ({"value": None}, "invalid_value"),
    ({"value": "one"}, "invalid_value"),
    ({"value": ""}, "invalid_value"),
    ({"value": " 1"}, "invalid_value"),
    ({"value": "1_000"}, "invalid_value"),
    ({"value": "٣"}, "invalid_value"),
    ({"value": "1" * 65}, "invalid_value"),
    ({"value": (1, 2)}, "wrong_columns"),
    ({"value": ()}, "wrong_columns"),
    ({"at": datetime(2026, 11, 20)}, "invalid_at"),  # noqa: DTZ001 (this is the error)
    ({"at": "2026-11-20"}, "invalid_at"),
    ({"at": 1.5}, "invalid_at"),
    ({"at": True}, "invalid_at"),
    ({"at": -2_208_988_800_001}, "invalid_at"),
    ({"at": LATEST_MS}, "invalid_at"),
    ({"at": 10**30}, "invalid_at"),
    # If an event has two errors, the reported one is the error that does not depend on the columns.
    ({"at": 1.5, "value": LIMIT // 100 + 1}, "invalid_at"),
    ({"at": 1.5, "value": "one"}, "invalid_at"),
    ({"at": 1.5, "value": None}, "invalid_value"),
    ({"id": "", "value": "1.234"}, "id_empty"),
    ({"at": LATEST_MS - 1}, "at_in_future"),
    ({"at": NOW_MS + 5_001}, "at_in_future"),
    ({"member": "top"}, "total_out_of_range"),
    ({"id": "another id"}, "dedupe_full"),
]


@pytest.mark.parametrize(("wrong", "code"), EVENTS)
def test_each_invalid_event_is_refused_with_its_code(
    ready: Ready, wrong: dict[str, Any], code: str
) -> None:
    error = ready.refuses(submit(**wrong), code)
    # only `dedupe_full` is temporary: if the event is sent again later, it may be accepted
    assert error.retryable == (code == "dedupe_full")
    event = {"member": "ann", "value": 1, **wrong}
    receipt = ready.lb.submit_many("b", [event])[0]
    assert (receipt.status, receipt.reason) == ("refused", code)
    assert receipt.message


ACTS: list[tuple[Act, str]] = [
    (lambda lb: lb.submit("none", "ann", 1), "unknown_board"),
    (lambda lb: lb.top("none"), "unknown_board"),
    (lambda lb: lb.remove("none", "ann"), "unknown_board"),
    (lambda lb: lb.set_data("none", "ann", 1), "unknown_board"),
    (lambda lb: lb.change("none", title="x"), "unknown_board"),
    (lambda lb: lb.stats("none"), "unknown_board"),
    (lambda lb: lb.top("b", window="week"), "unknown_window"),
    (lambda lb: lb.submit("b", "ann", 1, window="week"), "unknown_window"),
    (lambda lb: lb.submit_many("b", [("ann", 1)], window=""), "unknown_window"),
    (lambda lb: lb.top("b", window="day", period="soon"), "unknown_period"),
    (lambda lb: lb.top("b", window="day", period="2026-11-01"), "period_expired"),
    (lambda lb: lb.top("b", window="day", period="2027-11-01"), "period_future"),
    (lambda lb: lb.set("days", "ann", 1), "no_all_window"),
    (lambda lb: lb.submit("days", "ann", 1, at=NOW_MS - 9 * 86_400_000), "too_late"),
    (lambda lb: lb.submit("kept", "ann", 6), "value_out_of_range"),
    (lambda lb: lb.set("kept", "ann", -1), "value_out_of_range"),
    (lambda lb: lb.set("b", "ann", 1, at=NOW_MS - 1), "set_with_time"),
    (lambda lb: lb.submit_many("b", [("ann", 1)] * 100_001), "batch_too_large"),
    (lambda lb: lb.submit_many("b", [("a", 1), ("", 1)], all_or_nothing=True), "batch_refused"),
    (lambda lb: lb.submit_many("b", [("ann", 1)], key="x" * 128), "id_too_long"),
    (lambda lb: lb.top("b", limit=-1), "invalid_limit"),
    (lambda lb: lb.top("b", limit=10_001), "invalid_limit"),
    (lambda lb: lb.top("b", limit=True), "invalid_limit"),
    (lambda lb: lb.range("b", limit=-1), "invalid_limit"),
    (lambda lb: lb.standings("b", ["ann", *(f"m{i}" for i in range(10_000))]), "invalid_limit"),
    (lambda lb: lb.top("b", offset=-1), "invalid_offset"),
    (lambda lb: lb.range("b", offset=-1), "invalid_offset"),
    (lambda lb: lb.top("b", offset=2**70), "invalid_offset"),
    (lambda lb: lb.archived("b", offset=2**70), "invalid_offset"),
    (lambda lb: lb.at_rank("b", 10**400), "invalid_rank"),
    (lambda lb: lb.around("b", "ann", radius=-1), "invalid_radius"),
    (lambda lb: lb.around("b", "ann", radius=5_001), "invalid_radius"),
    (lambda lb: lb.at_rank("b", 0), "invalid_rank"),
    (lambda lb: lb.standing("b", "top", to_rank=0), "invalid_rank"),
    (lambda lb: lb.score_at_percentile("b", 101), "invalid_percentile"),
    (lambda lb: lb.range("b", low=2, high=1), "invalid_range"),
    (lambda lb: lb.top("b", after="???"), "invalid_cursor"),
    (lambda lb: lb.standing("b", ""), "member_empty"),
    (lambda lb: lb.around("b", "x" * 129), "member_too_long"),
    (lambda lb: lb.standings("b", ["\ud800"]), "member_not_utf8"),
    (lambda lb: lb.rank("b", "\ud800"), "member_not_utf8"),
    (lambda lb: lb.rank("b", ""), "member_empty"),
    (lambda lb: lb.rank("b", "ann", window="none"), "unknown_window"),
    (lambda lb: lb.ranks("b", ["ann", "é" * 65]), "member_too_long"),
    (lambda lb: lb.ranks("b", ["ann", ""]), "member_empty"),
    (lambda lb: lb.ranks("b", [f"m{i}" for i in range(10_001)]), "invalid_limit"),
    (lambda lb: lb.ranks("b", "ann"), "invalid_member"),
    (lambda lb: lb.ranks("b", anything([1])), "invalid_member"),
    (lambda lb: lb.remove("b", ""), "member_empty"),
    (lambda lb: lb.set_data("b", "", 1), "member_empty"),
    (lambda lb: lb.set_data("b", "ann", object()), "invalid_data"),
    (lambda lb: lb.submit_many("b", anything(None)), "invalid_event"),
    (lambda lb: lb.submit_many("b", [("ann", 1)], key=""), "id_empty"),
    (lambda lb: lb.submit_many("b", [("ann", 1)], key=anything(5)), "invalid_id"),
    (lambda lb: lb.submit_many("b", [("ann", 1)], position=anything(("x", 1))), "invalid_position"),
    (lambda lb: lb.submit_many("b", [("ann", 1)], position=("\ud800", "1")), "invalid_position"),
    (lambda lb: lb.submit_many("b", [("ann", 1)], position=anything("xy")), "invalid_position"),
    (lambda lb: lb.submit_many("b", [("ann", 1)], position=("x", "y" * 5_000)), "invalid_position"),
    (lambda lb: lb.standings("b", "ann"), "invalid_member"),
    (lambda lb: lb.standings("b", anything(None)), "invalid_member"),
    (lambda lb: lb.standings("b", anything([["ann"]])), "invalid_member"),
    (lambda lb: lb.set_data("b", "ann", float("nan")), "invalid_data"),
    (lambda lb: lb.set_data("b", "ann", "\ud800"), "invalid_data"),
    (lambda lb: lb.set_data("b", "ann", "x" * 1023), "data_too_large"),
    (lambda lb: lb.set_data("b", "ann", endless()), "invalid_data"),
    (lambda _: laurels.Board.from_json(b'{"name":'), "invalid_json"),
    (lambda _: laurels.Board.from_json(b'{"name": "\xff"}'), "invalid_json"),
    (lambda _: laurels.Board.from_json(b'{"x":' * 100_000), "json_too_deep"),
    (lambda lb: lb.create({"name": "b"}), "board_exists"),
    (lambda lb: lb.create({"name": "c", "keep": 0}), "invalid_board"),
    (lambda lb: lb.create({"name": "no spaces"}), "invalid_name"),
    (lambda lb: lb.change("b", tie="last"), "unsafe_change"),
]


@pytest.mark.parametrize(("act", "code"), ACTS)
def test_each_invalid_call_is_refused_with_its_code(ready: Ready, act: Act, code: str) -> None:
    before = ready.lb.stats().offset
    ready.refuses(act, code)
    if code != "too_late":
        assert ready.lb.stats().offset == before


def endless() -> object:
    """Return a list that contains itself, and so is nested infinitely."""
    nested: list[object] = []
    nested.append(nested)
    return nested


EVENT_FORMS: list[Any] = [
    (),
    ("ann",),
    ("ann", 1, None, None, None, 5),
    {"member": "ann"},
    {"member": "ann", "value": 1, "colour": "red"},
    "ann",
    None,
    7,
]


@pytest.mark.parametrize("event", EVENT_FORMS)
def test_a_value_that_is_not_an_event_is_refused(ready: Ready, event: Any) -> None:
    receipt = ready.lb.submit_many("b", [event])[0]
    assert (receipt.status, receipt.reason) == ("refused", "invalid_event")


def test_a_closed_store_refuses_calls(lb: laurels.Leaderboards) -> None:
    lb.create(laurels.Board("b"))
    lb.close()
    lb.close()
    for act in (lambda: lb.top("b"), lambda: lb.submit("b", "ann", 1), lb.boards):
        with pytest.raises(LaurelsError) as error:
            act()
        assert error.value.code == "closed"


@pytest.mark.parametrize("url", ["", "gopher://x", "redis+ftp://x"])
def test_an_unknown_url_is_refused(url: str) -> None:
    with pytest.raises(LaurelsError) as error:
        laurels.open(url)
    assert error.value.code == "unknown_url"


def test_an_unknown_clock_is_refused() -> None:
    with pytest.raises(LaurelsError) as error:
        laurels.open("memory:", clock="sundial")
    assert error.value.code == "invalid_clock"


def test_a_batch_without_end_is_refused(ready: Ready) -> None:
    ready.refuses(lambda lb: lb.submit_many("b", repeat(("ann", 1))), "batch_too_large")


def test_events_that_fail_while_they_are_read_leave_no_trace(ready: Ready) -> None:
    def events() -> Iterator[tuple[str, int]]:
        yield "ann", 1
        raise OSError("the file is gone")

    before = ready.lb.stats()
    with pytest.raises(OSError, match="gone"):
        ready.lb.submit_many("b", events())
    assert ready.lb.stats() == before


def test_the_largest_batch_is_taken(lb: laurels.Leaderboards) -> None:
    lb.create(laurels.Board("b"))
    assert lb.submit_many("b", repeat(("ann", 1), 100_000)).applied == 100_000
    assert lb.top("b").entries[0].score == 100_000
