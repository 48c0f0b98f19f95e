"""`import --from` reads a sorted set of a Redis server into a board."""

import os
from typing import Any

import pytest

from tests.redis.cluster import Cluster
from tests.redis.servers import Server
from tests.serving import Served

from .running import Ran, Shell
from .sorted_sets import DATA, KEY, fill, importing, many, rejects_in


@pytest.fixture
def gifts(shell: Shell) -> Shell:
    shell.ok("board", "create", "gifts")
    return shell


def _carried(shell: Shell) -> dict[str, Any]:
    return {
        entry["member"]: entry.get("data")
        for entry in shell.json("top", "gifts", "--data")["entries"]
    }


def _no_trace(ran: Ran) -> None:
    assert "Traceback" not in ran.err
    assert ran.err.count("\n") == 1


def test_scores_are_imported_from_redis(gifts: Shell, server: Server) -> None:
    fill(server, {"ann": 5, "bob": -7, "cleo": 2**53 - 1, "dan": "1e3", "eve": "-0.0"})
    report = gifts.json(*importing(server))
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
            "reordered": 0,
            "first_reordered": [],
        },
        "interrupted": False,
        "error": None,
    }
    expected = {"cleo": 2**53 - 1, "dan": 1_000, "ann": 5, "eve": 0, "bob": -7}
    assert gifts.scores("gifts") == expected
    assert list(gifts.scores("gifts")) == list(expected)
    assert not list(gifts.directory.glob("*.rejects.csv"))


def test_the_output_summarises_the_import(gifts: Shell, server: Server) -> None:
    fill(server, {"ann": 5, "bob": 7})
    output = gifts.ok(*importing(server)).out
    assert "2 members: 2 set, 0 unchanged, 0 rejected" in output
    assert "2 members compared: they agree in score and position" in output


def test_ties_in_another_order_are_reported(gifts: Shell, server: Server) -> None:
    fill(server, {"ann": 5, "bob": 5, "cid": 5, "dan": 7})
    output = gifts.ok(*importing(server)).out
    assert "in position except for equal scores: 2 of them are in another order" in output
    assert "in the set (bob, cid)" in output
    assert "in score and position" not in output


def test_the_source_is_only_read(gifts: Shell, server: Server) -> None:
    fill(server, {"ann": 5, "bob": 7})
    server.call("HSET", DATA, "ann", "{}")
    before = [server.call("DUMP", key) for key in (KEY, DATA)]
    written = server.info("persistence")["rdb_changes_since_last_save"]
    gifts.ok(*importing(server))
    assert [server.call("DUMP", key) for key in (KEY, DATA)] == before
    assert server.info("persistence")["rdb_changes_since_last_save"] == written


@pytest.mark.parametrize("column", ["score", "score:op=last", "score:op=best"])
def test_a_repeated_import_counts_no_member_twice(
    shell: Shell, server: Server, column: str
) -> None:
    shell.ok("board", "create", "gifts", "--column", column)
    fill(server, {"ann": 5, "bob": 7})
    shell.ok(*importing(server))
    report = shell.json(*importing(server))
    assert (report["read"], report["applied"], report["unchanged"]) == (2, 0, 2)
    server.call("ZADD", KEY, 9, "ann")
    assert shell.json(*importing(server))["applied"] == 1
    assert shell.scores("gifts") == {"ann": 9, "bob": 7}


def test_an_ascending_board_has_the_order_of_the_set(shell: Shell, server: Server) -> None:
    shell.ok("board", "create", "gifts", "--column", "time:op=best,order=asc", "--tie", "member")
    fill(server, {"ann": 5, "bob": 3, "cleo": 5})
    shell.ok(*importing(server))
    assert list(shell.scores("gifts")) == [
        member.decode() for member in server.call("ZRANGE", KEY, 0, -1)
    ]


def test_a_total_is_set_whatever_the_board_has_counted(gifts: Shell, server: Server) -> None:
    gifts.ok("import", "gifts", "-", stdin=b"member,score\nann,3\n")
    fill(server, {"ann": 5})
    gifts.ok(*importing(server))
    assert gifts.scores("gifts") == {"ann": 5}


def test_a_score_can_change_from_one_end_of_the_range_to_the_other(
    gifts: Shell, server: Server
) -> None:
    limit = 2**53 - 1
    fill(server, {"ann": -limit, "bob": limit})
    gifts.ok(*importing(server))
    fill(server, {"ann": limit, "bob": -limit})
    gifts.ok(*importing(server))
    assert gifts.scores("gifts") == {"ann": limit, "bob": -limit}


def test_scores_without_a_time_count_in_no_running_period(shell: Shell, server: Server) -> None:
    shell.ok("board", "create", "gifts", "--window", "all", "--window", "day")
    fill(server, {"ann": 5})
    shell.ok(*importing(server))
    assert shell.scores("gifts") == {"ann": 5}
    assert shell.scores("gifts", "--window", "day") == {}


def test_scores_count_at_the_given_time(shell: Shell, server: Server) -> None:
    shell.ok("board", "create", "gifts", "--window", "all", "--window", "day")
    fill(server, {"ann": 5})
    shell.ok(*importing(server, "--event-at", "now"))
    assert shell.scores("gifts", "--window", "day") == {"ann": 5}


def test_a_board_in_event_time_takes_the_scores_at_the_given_time(
    shell: Shell, server: Server
) -> None:
    shell.ok("board", "create", "gifts", "--clock", "event", "--window", "all", "--window", "day")
    fill(server, {"ann": 5})
    shell.ok(*importing(server, "--event-at", "2021-03-01"))
    assert shell.scores("gifts", "--window", "day", "--period", "2021-03-01") == {"ann": 5}


def test_member_data_is_imported(gifts: Shell, server: Server) -> None:
    fill(server, dict.fromkeys(("a", "b", "c", "d", "e"), 1))
    server.call("HSET", DATA, "a", '{"name": "Ann", "level": 1.5}', "b", "plain text")
    server.call("HSET", DATA, "c", "null", "d", "7", "nobody", "x")
    report = gifts.json(*importing(server))
    assert (report["data"], report["data_left"]) == (3, 0)
    assert _carried(gifts) == {
        "a": {"name": "Ann", "level": 1.5},
        "b": "plain text",
        "c": None,
        "d": 7,
        "e": None,
    }
    assert gifts.json(*importing(server))["data"] == 0


def test_member_data_is_read_from_the_chosen_key_or_left_out(gifts: Shell, server: Server) -> None:
    fill(server, {"ann": 1})
    server.call("HSET", DATA, "ann", "usual")
    server.call("HSET", "member_data", "ann", "global")
    gifts.ok(*importing(server, "--no-data"))
    assert _carried(gifts) == {"ann": None}
    gifts.ok(*importing(server, "--data-key", "member_data"))
    assert _carried(gifts) == {"ann": "global"}
    gifts.ok(*importing(server))
    assert _carried(gifts) == {"ann": "usual"}


def test_invalid_member_data_is_left_out_and_reported(gifts: Shell, server: Server) -> None:
    fill(server, {"ann": 1, "bob": 2})
    server.call("HSET", DATA, "ann", "x" * 2_000, "bob", b"\xff\xfe")
    ran = gifts(*importing(server), "--json")
    assert ran.code == 1
    report = ran.json()
    assert (report["rejected"], report["data_left"]) == (0, 2)
    assert report["reasons"] == {"data_too_large": 1, "invalid_data": 1}
    assert gifts.scores("gifts") == {"bob": 2, "ann": 1}


def test_fractions_are_imported_exactly_at_the_scale(shell: Shell, server: Server) -> None:
    shell.ok("board", "create", "gifts", "--column", "score:scale=2")
    fill(server, {"a": "0.1", "b": "3.2", "c": "-1.05", "d": "7"})
    shell.ok(*importing(server))
    assert shell.scores("gifts") == {"d": 7.0, "b": 3.2, "a": 0.1, "c": -1.05}


def test_scores_that_the_board_refuses_are_rejected(shell: Shell, server: Server) -> None:
    shell.ok("board", "create", "gifts", "--column", "score:scale=1,min=0")
    fill(
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
    ran = shell(*importing(server), "--json")
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
    rows = rejects_in(shell.directory / "redis.gifts.rejects.csv")
    assert ("too_many_places", "third,0.3333333333333333") in rows
    assert ("member_not_utf8", r"\xff\xfe,1.0") in rows
    assert len(rows) == 8
    assert shell.scores("gifts") == {"good": 0.5}
    shell(*importing(server))
    assert len(rejects_in(shell.directory / "redis.gifts.rejects.csv")) == 8


def test_scores_beyond_the_exact_range_of_doubles_are_rejected(
    gifts: Shell, server: Server
) -> None:
    fill(server, {"ann": 2**53})
    ran = gifts(*importing(server), "--json")
    assert (ran.code, ran.json()["reasons"]) == (1, {"value_out_of_range": 1})


def test_a_set_is_imported_from_a_cluster(gifts: Shell) -> None:
    with Cluster() as cluster:
        owner = cluster.owner_of(KEY.encode())
        expected = many(3_000)
        fill(owner, expected)
        data = cluster.owner_of(DATA.encode())
        data.call("HSET", DATA, "member-1", '{"name": "One"}')
        command = ["import", "gifts", "--from", cluster.url, "--key", KEY]
        assert gifts.json(*command)["data"] == 1
    assert gifts.scores("gifts") == expected


def test_a_set_is_imported_into_a_served_board(
    shell: Shell, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = many(12_000)
    fill(server, expected)
    server.call("HSET", DATA, "member-1", '{"name": "One", "ratio": 0.1}', "member-2", "two")
    with Served(shell.directory / "boards") as served:
        monkeypatch.setenv("LAURELS_URL", served.url)
        shell.ok("board", "create", "gifts", "--column", "score:scale=1")
        report = shell.json(*importing(server, "--batch", "100000"))
        assert (report["applied"], report["data"]) == (12_000, 2)
        again = shell.json(*importing(server))
        assert (again["applied"], again["data"]) == (0, 0)
        assert shell.scores("gifts") == expected


def test_a_board_is_created(shell: Shell, server: Server) -> None:
    fill(server, {"ann": 5})
    shell.ok(*importing(server, "--create"))
    assert shell.scores("gifts") == {"ann": 5}


def test_the_address_is_read_from_the_environment(
    gifts: Shell, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(server, {"ann": 5})
    monkeypatch.setenv("LAURELS_FROM", server.url)
    gifts.ok("import", "gifts", "--key", KEY)
    gifts.ok("import", "gifts", "-", stdin=b"member,score\nann,1\n")
    assert gifts.scores("gifts") == {"ann": 6}


def test_unreadable_sources_are_refused(gifts: Shell, server: Server) -> None:
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


def test_a_server_that_cannot_be_used_causes_an_error_with_a_code(
    gifts: Shell, server: Server
) -> None:
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


def test_a_missing_redis_package_is_reported(gifts: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("laurels.stores.redis.connection.connection.find_spec", lambda _: None)
    ran = gifts("import", "gifts", "--from", "redis://127.0.0.1:1", "--key", KEY)
    assert (ran.code, ran.err.split(":")[0]) == (2, "error [missing_redis]")


def test_a_board_that_cannot_take_a_sorted_set_is_refused(shell: Shell, server: Server) -> None:
    fill(server, {"ann": 5})
    shell.ok("board", "create", "gifts", "--column", "a", "--column", "b")
    assert shell(*importing(server)).err.startswith("error [usage]: ")
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
def test_wrong_usage_is_refused(gifts: Shell, options: list[str]) -> None:
    gifts.file("in.csv", "member,score\na,1\n")
    ran = gifts("import", "gifts", *options)
    assert (ran.code, ran.err.split(":")[0]) == (2, "error [usage]")
    _no_trace(ran)


def test_the_help_has_an_example(shell: Shell) -> None:
    assert "--from redis://localhost/0 --key highscores" in shell.ok("import", "--help").out


def test_progress_is_drawn(gifts: Shell, server: Server) -> None:
    fill(server, many(20_000))
    code, output = gifts.on_a_terminal(*importing(server))
    assert code == 0, output[-2000:]
    assert "members" in output
    assert os.linesep.strip("\r") in output
