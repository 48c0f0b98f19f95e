"""`import --from`: a sorted set of Redis into a board, and what is said where they do not agree."""

import csv
import os
import random
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.redis.servers import Cluster, Server
from tests.serving import Served

from .running import Ran, Shell

KEY = "highscores"
DATA = f"{KEY}:member_data"


@pytest.fixture(scope="module")
def one_server() -> Iterator[Server]:
    with Server() as server:
        yield server


@pytest.fixture
def server(one_server: Server) -> Server:
    """A server with nothing on it."""
    one_server.call("FLUSHALL")
    return one_server


@pytest.fixture
def gifts(shell: Shell) -> Shell:
    shell.ok("board", "create", "gifts")
    return shell


def _fill(server: Server, scores: dict[Any, Any], key: str = KEY) -> None:
    flat = [part for member, score in scores.items() for part in (score, member)]
    for first in range(0, len(flat), 10_000):
        server.call("ZADD", key, *flat[first : first + 10_000])


def _import(server: Server, *options: str) -> list[str]:
    return ["import", "gifts", "--from", server.url, "--key", KEY, *options]


def _many(size: int, seed: int = 7) -> dict[str, int]:
    chance = random.Random(seed)
    return {f"member-{number}": chance.randrange(-500, 5_000) for number in range(size)}


def _rejects(path: Path) -> list[tuple[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return [(row["code"], row["text"]) for row in csv.DictReader(file)]


def _carried(shell: Shell) -> dict[str, Any]:
    return {
        entry["member"]: entry.get("data")
        for entry in shell.json("top", "gifts", "--data")["entries"]
    }


def _no_trace(ran: Ran) -> None:
    assert "Traceback" not in ran.err
    assert ran.err.count("\n") == 1


def test_scores_are_taken_over(gifts: Shell, server: Server) -> None:
    _fill(server, {"ann": 5, "bob": -7, "cleo": 2**53 - 1, "dan": "1e3", "eve": "-0.0"})
    report = gifts.json(*_import(server))
    assert report.pop("seconds") >= 0
    name = f"{server.url} {KEY}"
    assert report == {
        "board": "gifts",
        "from": name,
        "source": name,
        "resumed_after": 0,
        "read": 5,
        "applied": 5,
        "unchanged": 0,
        "rejected": 0,
        "disturbed": 0,
        "data": 0,
        "data_left": 0,
        "reasons": {},
        "rejects_file": None,
        "compared": {
            "members": 5,
            "left_out": 0,
            "changed": 0,
            "gone": 0,
            "differ": 0,
            "only_on_board": 0,
            "misplaced": 0,
            "first_changed": [],
            "first_differing": [],
            "first_only_on_board": [],
            "first_misplaced": [],
        },
        "interrupted": False,
        "error": None,
    }
    expected = {"cleo": 2**53 - 1, "dan": 1_000, "ann": 5, "eve": 0, "bob": -7}
    assert gifts.scores("gifts") == expected
    assert list(gifts.scores("gifts")) == list(expected)
    assert not list(gifts.directory.glob("*.rejects.csv"))


def test_what_is_said(gifts: Shell, server: Server) -> None:
    _fill(server, {"ann": 5, "bob": 7})
    said = gifts.ok(*_import(server)).out
    assert "2 members: 2 set, 0 unchanged, 0 rejected" in said
    assert "2 members compared: they agree in score and position" in said


def test_the_source_is_only_read(gifts: Shell, server: Server) -> None:
    _fill(server, {"ann": 5, "bob": 7})
    server.call("HSET", DATA, "ann", "{}")
    before = [server.call("DUMP", key) for key in (KEY, DATA)]
    written = server.info("persistence")["rdb_changes_since_last_save"]
    gifts.ok(*_import(server))
    assert [server.call("DUMP", key) for key in (KEY, DATA)] == before
    assert server.info("persistence")["rdb_changes_since_last_save"] == written


@pytest.mark.parametrize("column", ["score", "score:op=last", "score:op=best"])
def test_an_import_again_counts_nobody_twice(shell: Shell, server: Server, column: str) -> None:
    shell.ok("board", "create", "gifts", "--column", column)
    _fill(server, {"ann": 5, "bob": 7})
    shell.ok(*_import(server))
    report = shell.json(*_import(server))
    assert (report["read"], report["applied"], report["unchanged"]) == (2, 0, 2)
    server.call("ZADD", KEY, 9, "ann")
    assert shell.json(*_import(server))["applied"] == 1
    assert shell.scores("gifts") == {"ann": 9, "bob": 7}


def test_a_board_on_which_less_is_better(shell: Shell, server: Server) -> None:
    shell.ok("board", "create", "gifts", "--column", "time:op=best,order=asc", "--tie", "member")
    _fill(server, {"ann": 5, "bob": 3, "cleo": 5})
    shell.ok(*_import(server))
    assert list(shell.scores("gifts")) == [
        member.decode() for member in server.call("ZRANGE", KEY, 0, -1)
    ]


def test_totals_that_others_added_to_are_set(gifts: Shell, server: Server) -> None:
    gifts.ok("import", "gifts", "-", stdin=b"member,score\nann,3\n")
    _fill(server, {"ann": 5})
    gifts.ok(*_import(server))
    assert gifts.scores("gifts") == {"ann": 5}


def test_from_one_end_of_the_range_to_the_other(gifts: Shell, server: Server) -> None:
    limit = 2**53 - 1
    _fill(server, {"ann": -limit, "bob": limit})
    gifts.ok(*_import(server))
    _fill(server, {"ann": limit, "bob": -limit})
    gifts.ok(*_import(server))
    assert gifts.scores("gifts") == {"ann": limit, "bob": -limit}


def test_scores_count_in_no_running_period(shell: Shell, server: Server) -> None:
    shell.ok("board", "create", "gifts", "--window", "all", "--window", "day")
    _fill(server, {"ann": 5})
    shell.ok(*_import(server))
    assert shell.scores("gifts") == {"ann": 5}
    assert shell.scores("gifts", "--window", "day") == {}


def test_scores_count_at_the_time_that_is_said(shell: Shell, server: Server) -> None:
    shell.ok("board", "create", "gifts", "--window", "all", "--window", "day")
    _fill(server, {"ann": 5})
    shell.ok(*_import(server, "--event-at", "now"))
    assert shell.scores("gifts", "--window", "day") == {"ann": 5}


def test_event_time(shell: Shell, server: Server) -> None:
    shell.ok("board", "create", "gifts", "--clock", "event", "--window", "all", "--window", "day")
    _fill(server, {"ann": 5})
    shell.ok(*_import(server, "--event-at", "2021-03-01"))
    assert shell.scores("gifts", "--window", "day", "--period", "2021-03-01") == {"ann": 5}


def test_member_data(gifts: Shell, server: Server) -> None:
    _fill(server, dict.fromkeys(("a", "b", "c", "d", "e"), 1))
    server.call("HSET", DATA, "a", '{"name": "Ann", "level": 1.5}', "b", "plain text")
    server.call("HSET", DATA, "c", "null", "d", "7", "nobody", "x")
    report = gifts.json(*_import(server))
    assert (report["data"], report["data_left"]) == (3, 0)
    assert _carried(gifts) == {
        "a": {"name": "Ann", "level": 1.5},
        "b": "plain text",
        "c": None,
        "d": 7,
        "e": None,
    }
    assert gifts.json(*_import(server))["data"] == 0


def test_member_data_elsewhere_and_none(gifts: Shell, server: Server) -> None:
    _fill(server, {"ann": 1})
    server.call("HSET", DATA, "ann", "usual")
    server.call("HSET", "member_data", "ann", "global")
    gifts.ok(*_import(server, "--no-data"))
    assert _carried(gifts) == {"ann": None}
    gifts.ok(*_import(server, "--data-key", "member_data"))
    assert _carried(gifts) == {"ann": "global"}
    gifts.ok(*_import(server))
    assert _carried(gifts) == {"ann": "usual"}


def test_data_a_board_does_not_take(gifts: Shell, server: Server) -> None:
    _fill(server, {"ann": 1, "bob": 2})
    server.call("HSET", DATA, "ann", "x" * 2_000, "bob", b"\xff\xfe")
    ran = gifts(*_import(server), "--json")
    assert ran.code == 1
    report = ran.json()
    assert (report["rejected"], report["data_left"]) == (0, 2)
    assert report["reasons"] == {"data_too_large": 1, "invalid_data": 1}
    assert gifts.scores("gifts") == {"bob": 2, "ann": 1}


def test_fractions_fit_the_scale(shell: Shell, server: Server) -> None:
    shell.ok("board", "create", "gifts", "--column", "score:scale=2")
    _fill(server, {"a": "0.1", "b": "3.2", "c": "-1.05", "d": "7"})
    shell.ok(*_import(server))
    assert shell.scores("gifts") == {"d": 7.0, "b": 3.2, "a": 0.1, "c": -1.05}


def test_rejects(shell: Shell, server: Server) -> None:
    shell.ok("board", "create", "gifts", "--column", "score:scale=1,min=0")
    _fill(
        server,
        {
            "good": "0.5",
            "third": repr(1 / 3),
            "endless": "inf",
            "minus": "-inf",
            "large": "1e17",
            "negative": "-1",
            "x" * 129: "1",
            "": "1",
            b"\xff\xfe": "1",
        },
    )
    ran = shell(*_import(server), "--json")
    assert ran.code == 1
    report = ran.json()
    assert report["reasons"] == {
        "too_many_places": 1,
        "not_finite": 2,
        "value_out_of_range": 2,
        "member_too_long": 1,
        "member_empty": 1,
        "member_not_utf8": 1,
    }
    assert (report["applied"], report["rejected"]) == (1, 8)
    assert (report["compared"]["members"], report["compared"]["left_out"]) == (1, 8)
    rows = _rejects(shell.directory / "redis.gifts.rejects.csv")
    assert ("too_many_places", "third,0.3333333333333333") in rows
    assert ("member_not_utf8", r"\xff\xfe,1.0") in rows
    assert len(rows) == 8
    assert shell.scores("gifts") == {"good": 0.5}
    shell(*_import(server))
    assert len(_rejects(shell.directory / "redis.gifts.rejects.csv")) == 8


def test_beyond_what_doubles_keep_exactly(gifts: Shell, server: Server) -> None:
    _fill(server, {"ann": 2**53})
    ran = gifts(*_import(server), "--json")
    assert (ran.code, ran.json()["reasons"]) == (1, {"value_out_of_range": 1})


def test_members_on_the_board_alone_are_named(gifts: Shell, server: Server) -> None:
    gifts.ok("import", "gifts", "-", stdin=b"member,score\nzoe,3\n")
    _fill(server, {"ann": 5})
    ran = gifts(*_import(server), "--json")
    assert ran.code == 1
    assert ran.json()["compared"]["first_only_on_board"] == ["zoe"]
    assert "1 members are on the board alone" in ran.err


def test_a_board_that_keeps_something_better_differs(shell: Shell, server: Server) -> None:
    shell.ok("board", "create", "gifts", "--column", "score:op=best")
    shell.ok("import", "gifts", "-", stdin=b"member,score\nann,9\n")
    _fill(server, {"ann": 5, "bob": 1})
    ran = shell(*_import(server), "--json")
    assert ran.code == 1
    compared = ran.json()["compared"]
    assert (compared["differ"], compared["changed"]) == (1, 0)
    assert compared["first_differing"] == [{"member": "ann", "source": 5, "board": 9}]
    assert "ann has 9 for 5" in ran.err


CHANGING = """
import redis
from laurels.cli.comparing import Comparison
run = Comparison.run
def running(self):
    with redis.Redis(port={port}) as server:
        server.zadd("highscores", {{"member-3": 999_999, "new": 7}})
        server.zrem("highscores", "member-4")
    run(self)
Comparison.run = running
"""


def test_changes_of_the_source_meanwhile(gifts: Shell, server: Server) -> None:
    """They are taken over, and told apart from what is wrong."""
    expected = _many(3_000)
    _fill(server, expected)
    ran = gifts.process(
        *_import(server, "--batch", "500", "--json"), prelude=CHANGING.format(port=server.port)
    )
    assert ran.returncode == 1, ran.stderr
    compared = Ran(1, ran.stdout.decode(), "").json()["compared"]
    assert (compared["changed"], compared["differ"]) == (2, 0)
    assert set(compared["first_changed"]) == {"member-3", "new"}
    assert compared["first_only_on_board"] == ["member-4"]
    left = expected.pop("member-4")
    scores = gifts.scores("gifts")
    assert scores == expected | {"member-3": 999_999, "new": 7, "member-4": left}


def test_members_that_were_not_set_are_told(gifts: Shell, server: Server) -> None:
    _fill(server, _many(100))
    wrong = (
        "from laurels.cli.totals import Totals\n"
        "parts = Totals._parts\n"
        "Totals._parts = lambda self, units, had: [] if units % 2 else parts(self, units, had)\n"
    )
    ran = gifts.process(*_import(server, "--json"), prelude=wrong)
    assert ran.returncode == 1, ran.stderr
    compared = Ran(1, ran.stdout.decode(), "").json()["compared"]
    assert compared["differ"] == sum(score % 2 for score in _many(100).values())
    assert compared["changed"] == 0
    assert all(found["board"] is None for found in compared["first_differing"])


def test_members_in_the_wrong_order_are_told(gifts: Shell, server: Server) -> None:
    _fill(server, {"ann": 5, "bob": 7, "cleo": 7})
    wrong = (
        "from laurels.cli.totals import Totals\n"
        "page = Totals.page\n"
        "def turned(self, after):\n"
        "    entries, following = page(self, after)\n"
        "    return entries[::-1], following\n"
        "Totals.page = turned\n"
    )
    ran = gifts.process(*_import(server, "--json"), prelude=wrong)
    assert ran.returncode == 1, ran.stderr
    compared = Ran(1, ran.stdout.decode(), "").json()["compared"]
    assert (compared["misplaced"], compared["differ"]) == (1, 0)


def test_somebody_else_who_writes_to_the_board_is_told(gifts: Shell, server: Server) -> None:
    _fill(server, {"ann": 5, "bob": 7})
    meddled = (
        "from laurels.cli.totals import Totals\n"
        "read, meddled = Totals.read, []\n"
        "def reading(self, members):\n"
        "    had = read(self, members)\n"
        "    if not meddled:\n"
        "        meddled.append(self._lb.submit('gifts', 'ann', 3))\n"
        "    return had\n"
        "Totals.read = reading\n"
    )
    ran = gifts.process(*_import(server, "--json"), prelude=meddled)
    assert ran.returncode == 0, ran.stderr
    assert b"1 members had another score just after they were set" in ran.stderr
    report = Ran(0, ran.stdout.decode(), "").json()
    assert (report["disturbed"], report["compared"]["first_changed"]) == (1, ["ann"])
    assert gifts.scores("gifts") == {"bob": 7, "ann": 5}


KILLED = """
import os, signal
import laurels
submit_many = laurels.Leaderboards.submit_many
calls = 0
def killing(*arguments, **options):
    global calls
    calls += 1
    if calls == {at} and {before}:
        os.kill(os.getpid(), signal.{signal})
    receipts = submit_many(*arguments, **options)
    if calls == {at} and not {before}:
        os.kill(os.getpid(), signal.{signal})
    return receipts
laurels.Leaderboards.submit_many = killing
"""


@pytest.mark.parametrize("before", [True, False], ids=["before commit", "after commit"])
def test_killed_again_and_again(gifts: Shell, server: Server, before: bool) -> None:
    expected = _many(5_000)
    _fill(server, expected)
    _fill(server, {f"bad{number}": "0.5" for number in range(20)})
    command = _import(server, "--batch", "500")
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
    codes = [code for code, _ in _rejects(gifts.directory / "redis.gifts.rejects.csv")]
    assert codes == ["too_many_places"] * 20
    gifts.ok("check")


def test_a_server_started_anew_is_read_from_the_beginning(gifts: Shell) -> None:
    """Its cursors mean other places then."""
    with Server() as server:
        expected = _many(5_000)
        _fill(server, expected)
        command = _import(server, "--batch", "500")
        prelude = KILLED.format(at=4, before=False, signal="SIGKILL")
        gifts.process(*command, prelude=prelude)
        server.stop()
        server.start()
        report = gifts.json(*command)
    assert (report["resumed_after"], report["read"]) == (0, 5_000)
    assert report["unchanged"] >= 2_000
    assert gifts.scores("gifts") == expected


def test_ctrl_c_ends_between_commits(gifts: Shell, server: Server) -> None:
    expected = _many(5_000)
    _fill(server, expected)
    command = _import(server, "--batch", "500")
    prelude = KILLED.format(at=3, before=True, signal="SIGINT")
    ran = gifts.process(*command, prelude=prelude)
    assert ran.returncode == 130
    assert b"Traceback" not in ran.stderr
    assert b"the same command goes on where it stopped" in ran.stderr
    assert gifts.json(*command)["resumed_after"] >= 1_500
    assert gifts.scores("gifts") == expected


def test_a_hundred_thousand_members(gifts: Shell, server: Server) -> None:
    expected = _many(100_000)
    _fill(server, expected)
    report = gifts.json(*_import(server))
    assert report["applied"] == 100_000
    assert report["compared"]["members"] == 100_000
    assert gifts.scores("gifts") == expected


def test_from_a_cluster(gifts: Shell) -> None:
    with Cluster() as cluster:
        owner = cluster.owner_of(KEY.encode())
        expected = _many(3_000)
        _fill(owner, expected)
        data = cluster.owner_of(DATA.encode())
        data.call("HSET", DATA, "member-1", '{"name": "One"}')
        command = ["import", "gifts", "--from", cluster.url, "--key", KEY]
        assert gifts.json(*command)["data"] == 1
    assert gifts.scores("gifts") == expected


def test_into_a_served_board(shell: Shell, server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = _many(12_000)
    _fill(server, expected)
    server.call("HSET", DATA, "member-1", '{"name": "One", "ratio": 0.1}', "member-2", "two")
    with Served(shell.directory / "boards") as served:
        monkeypatch.setenv("LAURELS_URL", served.url)
        shell.ok("board", "create", "gifts", "--column", "score:scale=1")
        report = shell.json(*_import(server, "--batch", "100000"))
        assert (report["applied"], report["data"]) == (12_000, 2)
        again = shell.json(*_import(server))
        assert (again["applied"], again["data"]) == (0, 0)
        assert shell.scores("gifts") == expected


def test_a_board_is_created(shell: Shell, server: Server) -> None:
    _fill(server, {"ann": 5})
    shell.ok(*_import(server, "--create"))
    assert shell.scores("gifts") == {"ann": 5}


def test_the_address_from_the_environment(
    gifts: Shell, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    _fill(server, {"ann": 5})
    monkeypatch.setenv("LAURELS_FROM", server.url)
    gifts.ok("import", "gifts", "--key", KEY)
    gifts.ok("import", "gifts", "-", stdin=b"member,score\nann,1\n")
    assert gifts.scores("gifts") == {"ann": 6}


def test_what_cannot_be_read(gifts: Shell, server: Server) -> None:
    server.call("SET", "text", "x")
    server.call("ZADD", "zset", 1, "ann")
    for code, options in (
        ("source_missing", ["--key", "nothing"]),
        ("source_wrong_type", ["--key", "text"]),
        ("source_wrong_type", ["--key", "zset", "--data-key", "text"]),
        ("source_missing", ["--key", "zset", "--data-key", "nothing"]),
    ):
        ran = gifts("import", "gifts", "--from", server.url, *options)
        assert ran.code == 2
        assert ran.err.startswith(f"error [{code}]: ")
        _no_trace(ran)


def test_servers_that_do_not_answer(gifts: Shell, server: Server) -> None:
    with Server(password="secret") as locked:
        wrong = locked.url.replace("secret", "guess")
        for code, url in (
            ("source_unavailable", "redis://127.0.0.1:1"),
            ("index_denied", wrong),
            ("index_denied", f"redis://127.0.0.1:{locked.port}"),
            ("wrong_server", server.url.replace("redis://", "redis+cluster://")),
            ("unknown_url", "redis://"),
            ("unknown_url", "http://localhost"),
        ):
            ran = gifts("import", "gifts", "--from", url, "--key", KEY)
            assert ran.code == 2
            assert ran.err.startswith(f"error [{code}]: "), ran.err
            assert "guess" not in ran.err
            _no_trace(ran)


def test_a_server_that_goes_away_meanwhile(gifts: Shell) -> None:
    with Server() as server:
        _fill(server, _many(5_000))
        away = (
            "import os, signal\n"
            "from laurels.cli.taking_over import TakingOver\n"
            "take = TakingOver._take\n"
            "def taking(self, *arguments):\n"
            "    take(self, *arguments)\n"
            f"    self.tally.read > 1_000 and os.kill({server.pid}, signal.SIGKILL)\n"
            "TakingOver._take = taking\n"
        )
        ran = gifts.process(*_import(server, "--batch", "500", "--json"), prelude=away)
    assert ran.returncode == 2
    assert b"Traceback" not in ran.stderr
    assert b"error [source_unavailable]: " in ran.stderr
    report = Ran(2, ran.stdout.decode(), "").json()
    assert (report["error"], report["compared"]) == ("source_unavailable", None)
    assert report["applied"] > 1_000


def test_without_the_package(gifts: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("laurels.index.redis.connection.find_spec", lambda _: None)
    ran = gifts("import", "gifts", "--from", "redis://127.0.0.1:1", "--key", KEY)
    assert (ran.code, ran.err.split(":")[0]) == (2, "error [missing_redis]")


def test_boards_that_cannot_take_a_sorted_set(shell: Shell, server: Server) -> None:
    _fill(server, {"ann": 5})
    shell.ok("board", "create", "gifts", "--column", "a", "--column", "b")
    assert shell(*_import(server)).err.startswith("error [usage]: ")
    shell.ok("board", "create", "daily", "--window", "day")
    ran = shell("import", "daily", "--from", server.url, "--key", KEY)
    assert (ran.code, ran.err.split(":")[0]) == (2, "error [no_all_window]")


@pytest.mark.parametrize(
    "options",
    [
        ["--from", "redis://127.0.0.1:1"],
        ["in.csv", "--from", "redis://127.0.0.1:1", "--key", "k"],
        ["--from", "redis://127.0.0.1:1", "--key", "k", "--clock", "event"],
        ["--from", "redis://127.0.0.1:1", "--key", "k", "--no-header"],
        ["--from", "redis://127.0.0.1:1", "--key", "k", "--data-key", "d", "--no-data"],
        ["--from", "redis://127.0.0.1:1", "--key", "k", "--batch", "0"],
        ["--from", "redis://127.0.0.1:1", "--key", "k", "--event-at", "soon"],
        ["--from", "redis://127.0.0.1:1", "--key", "k", "--event-at", "2100-01-01"],
        ["in.csv", "--key", "k"],
        ["in.csv", "--no-data"],
    ],
    ids=" ".join,
)
def test_wrong_usage(gifts: Shell, options: list[str]) -> None:
    gifts.file("in.csv", "member,score\na,1\n")
    ran = gifts("import", "gifts", *options)
    assert (ran.code, ran.err.split(":")[0]) == (2, "error [usage]")
    _no_trace(ran)


def test_the_help_has_an_example(shell: Shell) -> None:
    assert "--from redis://localhost/0 --key highscores" in shell.ok("import", "--help").out


def test_progress_is_drawn(gifts: Shell, server: Server) -> None:
    _fill(server, _many(20_000))
    code, shown = gifts.on_a_terminal(*_import(server))
    assert code == 0, shown[-2000:]
    assert "members" in shown
    assert os.linesep.strip("\r") in shown
