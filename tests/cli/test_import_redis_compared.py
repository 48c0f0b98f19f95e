"""After an import from a sorted set, `import --from` compares the set with the board. An
interrupted import can continue."""

import signal

import pytest

from tests.conftest import Scaled
from tests.redis.servers import Server

from .running import KILLED, Ran, Shell
from .sorted_sets import fill, importing, many, rejects_in


@pytest.fixture
def gifts(shell: Shell) -> Shell:
    shell.ok("board", "create", "gifts")
    return shell


def test_members_that_only_the_board_has_are_reported(gifts: Shell, server: Server) -> None:
    gifts.ok("import", "gifts", "-", stdin=b"member,score\nzoe,3\n")
    fill(server, {"ann": 5})
    ran = gifts(*importing(server), "--json")
    assert ran.code == 1
    assert ran.json()["compared"]["first_only_on_board"] == ["zoe"]
    assert "1 members are only on the board" in ran.err


def test_a_better_score_on_the_board_is_reported_as_a_difference(
    shell: Shell, server: Server
) -> None:
    shell.ok("board", "create", "gifts", "--column", "score:op=best")
    shell.ok("import", "gifts", "-", stdin=b"member,score\nann,9\n")
    fill(server, {"ann": 5, "bob": 1})
    ran = shell(*importing(server), "--json")
    assert ran.code == 1
    compared = ran.json()["compared"]
    assert (compared["differ"], compared["changed"]) == (1, 0)
    assert compared["first_differing"] == [{"member": "ann", "source": 5, "board": 9}]
    assert "ann has 9 instead of 5" in ran.err


CHANGING = """
import redis
from laurels.cli.migrating.comparing import Comparison
run = Comparison.run
def running(self):
    with redis.Redis(port={port}) as server:
        server.zadd("highscores", {{"member-3": 999_999, "new": 7}})
        server.zrem("highscores", "member-4")
    run(self)
Comparison.run = running
"""


def test_changes_of_the_source_during_the_import_are_reported_separately(
    gifts: Shell, server: Server
) -> None:
    """Members whose scores changed in the set during the import are imported. They are reported
    separately from errors."""
    expected = many(3_000)
    fill(server, expected)
    ran = gifts.process(
        *importing(server, "--batch", "500", "--json"), prelude=CHANGING.format(port=server.port)
    )
    assert ran.returncode == 1, ran.stderr
    compared = Ran(1, ran.stdout.decode(), "").json()["compared"]
    assert (compared["changed"], compared["differ"]) == (2, 0)
    assert set(compared["first_changed"]) == {"member-3", "new"}
    assert compared["first_only_on_board"] == ["member-4"]
    left = expected.pop("member-4")
    scores = gifts.scores("gifts")
    assert scores == expected | {"member-3": 999_999, "new": 7, "member-4": left}


def test_members_that_were_not_set_are_reported(gifts: Shell, server: Server) -> None:
    fill(server, many(100))
    wrong = (
        "from laurels.cli.migrating.totals import Totals\n"
        "parts = Totals._parts\n"
        "Totals._parts = lambda self, units, had: [] if units % 2 else parts(self, units, had)\n"
    )
    ran = gifts.process(*importing(server, "--json"), prelude=wrong)
    assert ran.returncode == 1, ran.stderr
    compared = Ran(1, ran.stdout.decode(), "").json()["compared"]
    assert compared["differ"] == sum(score % 2 for score in many(100).values())
    assert compared["changed"] == 0
    assert all(difference["board"] is None for difference in compared["first_differing"])


def test_members_in_the_wrong_order_are_reported(gifts: Shell, server: Server) -> None:
    fill(server, {"ann": 5, "bob": 7, "cleo": 7})
    wrong = (
        "from laurels.cli.migrating.totals import Totals\n"
        "page = Totals.page\n"
        "def turned(self, after):\n"
        "    entries, following = page(self, after)\n"
        "    return entries[::-1], following\n"
        "Totals.page = turned\n"
    )
    ran = gifts.process(*importing(server, "--json"), prelude=wrong)
    assert ran.returncode == 1, ran.stderr
    compared = Ran(1, ran.stdout.decode(), "").json()["compared"]
    assert (compared["misplaced"], compared["differ"]) == (1, 0)


def test_concurrent_writes_to_the_board_are_reported(gifts: Shell, server: Server) -> None:
    fill(server, {"ann": 5, "bob": 7})
    meddled = (
        "from laurels.cli.migrating.totals import Totals\n"
        "read, meddled = Totals.read, []\n"
        "def reading(self, members):\n"
        "    had = read(self, members)\n"
        "    if not meddled:\n"
        "        meddled.append(self._lb.submit('gifts', 'ann', 3))\n"
        "    return had\n"
        "Totals.read = reading\n"
    )
    ran = gifts.process(*importing(server, "--json"), prelude=meddled)
    assert ran.returncode == 0, ran.stderr
    assert b"1 members had another score just after they were set" in ran.stderr
    report = Ran(0, ran.stdout.decode(), "").json()
    assert (report["disturbed"], report["compared"]["first_changed"]) == (1, ["ann"])
    assert gifts.scores("gifts") == {"bob": 7, "ann": 5}


@pytest.mark.parametrize("before", [True, False], ids=["before commit", "after commit"])
def test_an_import_that_is_killed_repeatedly_sets_each_score(
    gifts: Shell, server: Server, before: bool
) -> None:
    expected = many(5_000)
    fill(server, expected)
    fill(server, {f"bad{number}": "0.5" for number in range(20)})
    command = importing(server, "--batch", "500")
    for at in (2, 3):
        prelude = KILLED.format(at=at, before=before, signal="SIGKILL")
        assert gifts.process(*command, prelude=prelude).returncode == -signal.SIGKILL
    ran = gifts(*command, "--json")
    assert ran.code == 1
    report = ran.json()
    assert report["resumed_after"] > 500
    assert report["resumed_after"] + report["read"] == 5_020
    assert report["compared"]["members"] == 5_000
    assert gifts.scores("gifts") == expected
    codes = [code for code, _ in rejects_in(gifts.directory / "redis.gifts.rejects.csv")]
    assert codes == ["too_many_places"] * 20
    gifts.ok("check")


def test_a_restarted_server_is_read_from_the_beginning(gifts: Shell) -> None:
    """After a restart of the server the stored cursor is meaningless, so the import starts from the
    beginning."""
    with Server() as server:
        expected = many(5_000)
        fill(server, expected)
        command = importing(server, "--batch", "500")
        prelude = KILLED.format(at=4, before=False, signal="SIGKILL")
        gifts.process(*command, prelude=prelude)
        server.stop()
        server.start()
        report = gifts.json(*command)
    assert (report["resumed_after"], report["read"]) == (0, 5_000)
    assert report["unchanged"] >= 2_000
    assert gifts.scores("gifts") == expected


def test_ctrl_c_ends_an_import_between_two_commits(gifts: Shell, server: Server) -> None:
    expected = many(5_000)
    fill(server, expected)
    command = importing(server, "--batch", "500")
    prelude = KILLED.format(at=3, before=True, signal="SIGINT")
    ran = gifts.process(*command, prelude=prelude)
    assert ran.returncode == 130
    assert b"Traceback" not in ran.stderr
    assert b"run the same command again to continue" in ran.stderr
    assert gifts.json(*command)["resumed_after"] >= 1_500
    assert gifts.scores("gifts") == expected


def test_a_large_set_is_imported(gifts: Shell, server: Server, scaled: Scaled) -> None:
    size = scaled(25_000, 500_000)
    expected = many(size)
    fill(server, expected)
    report = gifts.json(*importing(server))
    assert report["applied"] == size
    assert report["compared"]["members"] == size
    assert gifts.scores("gifts") == expected


def test_an_import_ends_with_an_error_if_its_server_fails(gifts: Shell) -> None:
    with Server() as server:
        fill(server, many(5_000))
        away = (
            "import os, signal\n"
            "from laurels.cli.migrating.taking_over import Takeover\n"
            "take = Takeover._take\n"
            "def taking(self, *arguments):\n"
            "    take(self, *arguments)\n"
            f"    self.tally.read > 1_000 and os.kill({server.pid}, signal.SIGKILL)\n"
            "Takeover._take = taking\n"
        )
        ran = gifts.process(*importing(server, "--batch", "500", "--json"), prelude=away)
    assert ran.returncode == 2
    assert b"Traceback" not in ran.stderr
    assert b"error [source_unavailable]: " in ran.stderr
    report = Ran(2, ran.stdout.decode(), "").json()
    assert (report["error"], report["compared"]) == ("source_unavailable", None)
    assert report["applied"] > 1_000
