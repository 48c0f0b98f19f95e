"""`settle`, `payouts`, `confirm`, `disqualify` and `story`: their output for people, and for
programs."""

from datetime import UTC, datetime

import pytest

import laurels

from .running import Shell

JANUARY_MS = int(datetime(2021, 1, 20, tzinfo=UTC).timestamp()) * 1_000
FEBRUARY_MS = int(datetime(2021, 2, 2, tzinfo=UTC).timestamp()) * 1_000
PRIZES = {
    "list": [
        {"name": "gold", "ranks": [1, 1], "amount": "5.00", "scale": 2},
        {"name": "two", "ranks": [1, 2], "data": {"badge": 7}},
    ]
}
IN_JANUARY = ("--window", "month", "--period", "2021-01")


@pytest.fixture
def sealed(shell: Shell) -> Shell:
    """Boards on which January 2021 is sealed: ann has won the prizes `gold` and `two`, bob has won
    `two`."""
    clock = laurels.ManualClock(JANUARY_MS)
    with laurels.open(shell.directory / "boards", clock=clock) as lb:
        month = {"name": "month", "type": "month", "prizes": PRIZES}
        lb.create(laurels.Board("gifts", title="Gifts", windows=["all", month]))
        lb.submit_many("gifts", [("ann", 9), ("bob", 8), ("cid", 7)])
        clock.set(FEBRUARY_MS)
        lb.seal()
    return shell


def words(shell: Shell, *arguments: str) -> list[list[str]]:
    return [line.split() for line in shell.ok(*arguments).out.splitlines()]


def test_settle_shows_who_wins(sealed: Shell) -> None:
    settlement = sealed.json("settle", "gifts", *IN_JANUARY)
    assert [(a["member"], a["prize"]) for a in settlement["awards"]] == [
        ("ann", "gold"),
        ("ann", "two"),
        ("bob", "two"),
    ]
    lines = words(sealed, "settle", "gifts", *IN_JANUARY)
    assert lines[0] == ["Prizes", "of", "Gifts,", "month", "2021-01"]
    assert ["1", "ann", "9", "gold", "5.00"] in lines
    assert ["2", "bob", "8", "two", '{"badge":7}'] in lines
    assert lines[-1] == ["2", "of", "3", "members,", "final"]
    page = words(sealed, "settle", "gifts", *IN_JANUARY, "--limit", "1")
    assert page[-1] == ["next", "page:", "--offset", "1"]
    refused = sealed("settle", "gifts")
    assert (refused.code, refused.err.split(":")[0]) == (2, "error [no_prizes]")


def test_payouts_are_listed_and_confirmed(sealed: Shell) -> None:
    page = sealed.json("payouts", "gifts", "--limit", "2")
    first = page["payouts"][0]
    assert (first["member"], first["amount"], first["state"]) == ("ann", 5.00, "due")
    following = sealed.json("payouts", "gifts", "--after", page["next"])
    assert [each["member"] for each in following["payouts"]] == ["bob"]
    confirmed = sealed.ok("confirm", "gifts", first["id"], "bank-1").out
    assert confirmed == "ann has received gold (5.00): bank-1\n"
    assert sealed.json("confirm", "gifts", first["id"], "bank-1")["reference"] == "bank-1"
    refused = sealed("confirm", "gifts", first["id"], "bank-2")
    assert (refused.code, refused.err.split(":")[0]) == (2, "error [payout_confirmed]")
    assert len(sealed.json("payouts", "gifts", "--state", "due")["payouts"]) == 2
    table = words(sealed, "payouts", "gifts", "--member", "ann")
    assert any(
        line[:6] == ["month", "2021-01", "ann", "gold", "5.00", "confirmed"] for line in table
    )
    wrong = sealed("payouts", "gifts", "--state", "paid")
    assert (wrong.code, wrong.err.split(":")[0]) == (2, "error [usage]")


def test_a_story_tells_what_happened_to_a_period(sealed: Shell) -> None:
    paid = sealed.json("payouts", "gifts")["payouts"][0]["id"]
    sealed.ok("confirm", "gifts", paid, "bank-1")
    revised = sealed.ok("disqualify", "gifts", "ann", "--reason", "a bot", *IN_JANUARY).out
    assert revised.startswith("month 2021-01 has revision 1 with 2 entries, digest ")
    lines = sealed.ok("story", "gifts", *IN_JANUARY).out.splitlines()
    assert lines[0] == "gifts, month 2021-01: sealed 2021-02-02T00:00:00Z"
    assert lines[1].startswith("revision 1: 2 entries, digest ")
    assert f"{paid} was paid: bank-1" in lines[2]
    assert "ann was disqualified: a bot" in lines[3]
    assert any("taken back" in line for line in lines)
    assert any("-5.00" in line for line in lines)
    story = sealed.json("story", "gifts", *IN_JANUARY)
    assert [call["verb"] for call in story["calls"]] == ["confirm", "disqualify"]
    assert len(story["payouts"]) == 7
    assert story["period"]["revision"] == 1
    first = sealed.json("top", "gifts", *IN_JANUARY, "--revision", "0")["entries"][0]
    assert first["member"] == "ann"
    unknown = sealed("story", "gifts", "--window", "month", "--period", "2019-01")
    assert unknown.code == 2


def test_the_options_of_payouts_and_corrections_tell_their_defaults(shell: Shell) -> None:
    listed = " ".join(shell.ok("payouts", "--help").out.split())
    assert "Default: of all windows." in listed
    assert "Default: of all periods." in listed
    assert "the current one" not in listed
    assert "Default: the newest." in " ".join(shell.ok("story", "--help").out.split())
    corrected = " ".join(shell.ok("disqualify", "--help").out.split())
    assert "A sealed period" in corrected
    assert "Count only events" not in corrected


def test_the_audit_log_has_the_reason_of_a_correction(sealed: Shell) -> None:
    sealed.ok("disqualify", "gifts", "ann", "--reason", "a bot", *IN_JANUARY)
    assert sealed.json("audit")[0]["reason"] == "a bot"


def test_a_payout_that_is_taken_back_is_not_reported_as_received(sealed: Shell) -> None:
    sealed.ok("disqualify", "gifts", "ann", "--reason", "a bot", *IN_JANUARY)
    owed = sealed.json("payouts", "gifts", "--member", "ann", "--state", "due")["payouts"]
    said = {
        (each["prize"], "corrects" in each): sealed.ok("confirm", "gifts", each["id"], "bank-1").out
        for each in owed
    }
    assert said == {
        ("gold", False): "ann has received gold (5.00): bank-1\n",
        ("two", False): "ann has received two: bank-1\n",
        ("gold", True): "ann has returned gold (-5.00): bank-1\n",
        ("two", True): "ann has returned two: bank-1\n",
    }


def test_a_story_names_the_scope_of_a_correction(shell: Shell) -> None:
    clock = laurels.ManualClock(JANUARY_MS)
    with laurels.open(shell.directory / "boards", clock=clock) as lb:
        lb.create(laurels.Board("gifts", windows=["month:archive=forever"], scopes=[[], ["room"]]))
        lb.submit("gifts", "ann", 9, labels={"room": "7"})
        lb.submit("gifts", "bob", 8, labels={"room": "7"})
        clock.set(FEBRUARY_MS)
        lb.seal()
    correct = ("disqualify", "gifts", "ann", "--reason", "a bot", *IN_JANUARY)
    shell.ok(*correct, "--label", "room=7")
    shell.ok(*correct)
    with laurels.open(shell.directory / "boards") as lb:
        lb.disqualify("gifts", "bob", "a bot", period="2021-01", labels={})
    told = shell.ok("story", "gifts", *IN_JANUARY).out.splitlines()
    assert "ann was disqualified in room=7: a bot (by" in told[2]
    assert "ann was disqualified: a bot (by" in told[3]
    assert "bob was disqualified in the scope of all events: a bot (by" in told[4]


def test_a_correction_without_a_window_is_told_of_the_first_window_only(shell: Shell) -> None:
    clock = laurels.ManualClock(JANUARY_MS)
    with laurels.open(shell.directory / "boards", clock=clock) as lb:
        windows = ["month:archive=forever", "other=month:archive=forever"]
        lb.create(laurels.Board("gifts", windows=windows))
        lb.submit_many("gifts", [("ann", 9), ("bob", 8)])
        clock.set(FEBRUARY_MS)
        lb.seal()
    shell.ok("disqualify", "gifts", "ann", "--reason", "a bot", "--period", "2021-01")
    first = shell.json("story", "gifts", *IN_JANUARY)
    assert [call["verb"] for call in first["calls"]] == ["disqualify"]
    other = shell.json("story", "gifts", "--window", "other", "--period", "2021-01")
    assert other["calls"] == []
