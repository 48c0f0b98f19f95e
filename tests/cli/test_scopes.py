"""Scopes on the command line: where events count, and the leaders of each scope."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

import laurels
from laurels import config
from laurels.cli.ranking import Ranking
from laurels.cli.screen import picture
from laurels.stores.http import feed
from laurels.stores.local.index import ranked_reads
from tests.internals import local, wire_of
from tests.redis.servers import Server
from tests.serving import Served

from .applying import actions, applied, apply
from .running import Shell

CREATE = ("board", "create", "gifts", "--scope", "", "--scope", "room", "--scope", "zone,gender")
EVENTS = """member,value,room,zone,gender
ann,5,42,cn,f
bob,7,42,,
cid,3,a b=c,cn,m
dan,9,,,
"""


@pytest.fixture
def gifts(shell: Shell) -> Shell:
    shell.ok(*CREATE, "--rank-by", "room")
    shell.ok("import", "gifts", "-", stdin=EVENTS.encode())
    return shell


def test_a_query_can_name_its_scope(gifts: Shell) -> None:
    assert gifts.scores("gifts") == {"dan": 9, "bob": 7, "ann": 5, "cid": 3}
    assert gifts.scores("gifts", "--label", "room=42") == {"bob": 7, "ann": 5}
    assert gifts.scores("gifts", "--label", "room=a b=c") == {"cid": 3}
    both = gifts.json("top", "gifts", "--label", "zone=cn", "--label", "gender=f")
    assert [entry["member"] for entry in both["entries"]] == ["ann"]
    assert both["as_of"]["labels"] == {"zone": "cn", "gender": "f"}
    assert gifts.scores("gifts", "--by", "room") == {"42": 12, "a b=c": 3}
    assert gifts.json("rank", "gifts", "ann", "--label", "room=42")["rank"] == 2
    assert gifts("rank", "gifts", "dan", "--label", "room=42").code == 1
    friends = gifts.json("rank", "gifts", "ann", "bob", "--label", "room=42")
    assert [entry["rank"] for entry in friends["entries"]] == [1, 2]
    near = gifts.json("around", "gifts", "ann", "--label", "room=42")
    assert near["total"] == 2


def test_a_table_names_its_scope(gifts: Shell) -> None:
    lines = gifts.ok("top", "gifts", "--label", "room=42").out.splitlines()
    assert lines[0] == "gifts, all, room=42"
    assert "2 members" in lines
    by = gifts.ok("top", "gifts", "--by", "room").out.splitlines()
    assert by[0] == "gifts, all, by room"
    assert by[1].split() == ["rank", "room", "score"]
    card = gifts.ok("rank", "gifts", "42", "--by", "room").out
    assert "1 of 2" in card
    exported = gifts.ok("export", "gifts", "--label", "room=42").out
    assert exported == "rank,member,score\n1,bob,7\n2,ann,5\n"


def test_scopes_are_listed(gifts: Shell) -> None:
    assert gifts.json("scopes", "gifts", "room") == [{"room": "42"}, {"room": "a b=c"}]
    table = gifts.ok("scopes", "gifts", "zone", "gender").out
    assert [line.split() for line in table.splitlines() if "cn" in line] == [
        ["f", "cn"],
        ["m", "cn"],
    ]
    first = gifts.ok("scopes", "gifts", "room", "-n", "1").out.splitlines()
    assert first[-1] == "next page: --after room=42"
    rest = gifts.json("scopes", "gifts", "room", "--after", "room=42")
    assert rest == [{"room": "a b=c"}]
    after = gifts.ok("scopes", "gifts", "zone", "gender", "-n", "1").out.splitlines()[-1]
    assert after == "next page: --after gender=f --after zone=cn"


def test_a_board_shows_its_scopes(gifts: Shell) -> None:
    output = gifts.ok("board", "show", "gifts").out
    rows = [line.split() for line in output.splitlines()]
    assert ["scopes", "all;", "room;", "gender,", "zone"] in rows
    assert ["ranked", "by", "room"] in rows
    assert ["room", "2"] in rows
    assert ["gender,", "zone", "2"] in rows
    gifts.ok("board", "create", "plain")
    assert "scopes" not in gifts.ok("board", "show", "plain").out
    gifts.ok("board", "create", "rooms", "--scope", "room")
    assert "room" in gifts.ok("board", "show", "rooms").out


def test_scopes_are_added(gifts: Shell) -> None:
    gifts.ok("board", "change", "gifts", "--scope", "zone", "--rank-by", "zone")
    definition = gifts.json("board", "show", "gifts")
    assert definition["scopes"] == [[], ["room"], ["gender", "zone"], ["zone"]]
    assert definition["rank_by"] == ["room", "zone"]
    gifts.ok("import", "gifts", "-", stdin=b"member,value,zone\nann,1,fr\n")
    assert gifts.scores("gifts", "--label", "zone=fr") == {"ann": 1}
    again = gifts("board", "change", "gifts", "--scope", "zone")
    assert (again.code, again.err.split(":")[0]) == (2, "error [invalid_board]")


def test_labels_of_an_import_come_from_the_named_columns(shell: Shell) -> None:
    shell.ok(*CREATE)
    shell.ok("import", "gifts", "-", "--label", "room=7", stdin=b"member,value\nann,1\n")
    shell.ok(
        *("import", "gifts", "-", "--label", "room=@place", "--label", "gender=f"),
        *("--label", "zone=@@x"),
        stdin=b"member,value,place,room\nbob,2,7,8\ncid,3,,8\n",
    )
    assert shell.scores("gifts", "--label", "room=7") == {"ann": 1, "bob": 2}
    assert shell.scores("gifts", "--label", "room=8") == {}
    both = ("--label", "zone=@x", "--label", "gender=f")
    assert shell.scores("gifts", *both) == {"bob": 2, "cid": 3}
    numbered = ("--no-header", "--label", "room=@3")
    shell.ok("import", "gifts", "-", *numbered, stdin=b"dan,4,7\n")
    assert shell.scores("gifts", "--label", "room=7") == {"dan": 4, "bob": 2, "ann": 1}


def test_columns_of_member_value_and_time_are_not_labels(shell: Shell) -> None:
    """The columns of member, value and time are never read as labels, even if a label has the same
    name."""
    shell.ok("board", "create", "gifts", "--scope", "", "--rank-by", "member", "--rank-by", "value")
    shell.ok("import", "gifts", "-", stdin=b"member,value\nann,1\n")
    shell.ok("import", "gifts", "-", stdin=b'{"member": "bob", "value": 2}\n')
    assert shell.scores("gifts") == {"bob": 2, "ann": 1}
    assert shell.scores("gifts", "--by", "member") == shell.scores("gifts", "--by", "value") == {}
    named = ("--label", "member=@team", "--label", "value=5")
    shell.ok("import", "gifts", "-", *named, stdin=b"member,value,team\ncid,3,red\n")
    shell.ok(
        "import", "gifts", "-", *named, stdin=b'{"member": "dan", "value": 4, "team": "red"}\n'
    )
    assert shell.scores("gifts", "--by", "member") == {"red": 7}
    assert shell.scores("gifts", "--by", "value") == {"5": 7}


def test_lines_of_json_carry_labels(shell: Shell) -> None:
    shell.ok(*CREATE)
    lines = (
        b'{"member": "ann", "value": 1, "labels": {"room": "7", "zone": null}}\n'
        b'{"member": "bob", "value": 2, "room": 7}\n'
        b'{"member": "cid", "value": 3, "labels": {"room": "8"}, "room": "7"}\n'
        b'{"member": "dan", "value": 4, "labels": {"colour": "red"}}\n'
        b'{"member": "eve", "value": 5, "labels": ["room"]}\n'
        b'{"member": "fay", "value": 6, "labels": {"room": 1.5}}\n'
    )
    ran = shell("import", "gifts", "-", "--json", stdin=lines)
    assert ran.code == 1
    (report,) = ran.json()["files"]
    assert report["reasons"] == {"unknown_label": 1, "invalid_label": 2}
    assert shell.scores("gifts", "--label", "room=7") == {"ann": 1, "bob": 2}
    assert shell.scores("gifts", "--label", "room=8") == {"cid": 3}


def test_an_import_in_time_order_keeps_labels(shell: Shell) -> None:
    shell.ok(*CREATE, "--clock", "event")
    content = b"member,value,at,room\nann,1,2021-02-02,7\nbob,2,2021-02-01,7\n"
    shell.ok("import", "gifts", "-", "--clock", "event", stdin=content)
    assert shell.scores("gifts", "--label", "room=7") == {"ann": 1, "bob": 2}


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("top", "gifts", "--label", "room"), "usage"),
        (("top", "gifts", "--label", "limit=5"), "unknown_scope"),
        (("top", "gifts", "--label", "=5"), "usage"),
        (("top", "gifts", "--label", "room=1", "--label", "room=2"), "usage"),
        (("top", "gifts", "--label", "room="), "invalid_label"),
        (("top", "gifts", "--label", "colour=red"), "unknown_scope"),
        (("top", "gifts", "--by", "zone"), "unknown_scope"),
        (("top", "gifts", "--by", "room", "--label", "room=1"), "unknown_scope"),
        (("watch", "gifts", "--label", "room"), "usage"),
        (("scopes", "gifts"), "usage"),
        (("scopes", "gifts", "colour"), "unknown_scope"),
        (("scopes", "gifts", "room", "--after", "42"), "usage"),
        (("scopes", "gifts", "room", "-n", "-1"), "invalid_limit"),
        (("board", "create", "b", "--scope", "a b"), "invalid_board"),
        (("board", "create", "b", "--rank-by", "a b"), "invalid_board"),
        (("import", "gifts", "in.csv", "--label", "colour=red"), "unknown_label"),
        (("import", "gifts", "in.csv", "--label", "room=@"), "usage"),
        (("import", "gifts", "in.csv", "--label", "room=@there"), "usage"),
        (("import", "gifts", "in.csv", "--no-header", "--label", "room=@there"), "usage"),
        (("import", "gifts", "in.csv", "--label", "room="), "invalid_label"),
    ],
    ids=str,
)
def test_an_invalid_scope_is_refused(gifts: Shell, arguments: tuple[str, ...], code: str) -> None:
    gifts.file("in.csv", EVENTS)
    ran = gifts(*arguments)
    assert (ran.code, ran.err.partition(":")[0]) == (2, f"error [{code}]"), ran


def test_a_server_takes_the_same_options_for_scopes(shell: Shell, tmp_path: Path) -> None:
    with Served(tmp_path / "served") as served:
        at = ("--at", served.url)
        shell.ok(*CREATE, "--rank-by", "room", *at)
        shell.ok("import", "gifts", "-", *at, stdin=EVENTS.encode())
        assert shell.scores("gifts", "--label", "room=42", *at) == {"bob": 7, "ann": 5}
        assert shell.json("scopes", "gifts", "room", *at) == [{"room": "42"}, {"room": "a b=c"}]
        assert "gender, zone" in shell.ok("board", "show", "gifts", *at).out
        refused = shell("top", "gifts", "--label", "colour=red", *at)
        assert refused.err.startswith("error [unknown_scope]")
        refused = shell("watch", "gifts", "--label", "colour=red", *at)
        assert refused.err.startswith("error [unknown_scope]")


def test_a_sorted_set_is_imported_into_a_scope(shell: Shell, server: Server) -> None:
    server.call("ZADD", "room:42", "5", "ann", "7", "bob")
    server.call("ZADD", "room:7", "1", "ann")
    shell.ok(*CREATE)
    for room in ("42", "7"):
        from_ = ("--from", server.url, "--key", f"room:{room}", "--label", f"room={room}")
        for _ in range(2):
            shell.ok("import", "gifts", *from_)
    assert shell.scores("gifts", "--label", "room=42") == {"bob": 7, "ann": 5}
    assert shell.scores("gifts", "--label", "room=7") == {"ann": 1}
    assert shell.scores("gifts") == {"bob": 7, "ann": 6}
    ran = shell("import", "gifts", "--from", server.url, "--key", "room:7", "--label", "room=@x")
    assert ran.err.startswith("error [usage]")


def test_stats_count_scopes_by_their_label_names() -> None:
    with laurels.open("memory:") as lb:
        lb.create(laurels.Board("b", scopes=[[], ["room"], ["zone", "gender"]], rank_by="room"))
        for room in range(5):
            lb.submit("b", "ann", 1, labels={"room": str(room), "zone": "cn", "gender": "f"})
        assert lb.stats("b").scopes == {"room": 5, "gender,zone": 1}
        lb.remove("b", "ann")
        assert lb.stats("b").scopes == {"room": 0, "gender,zone": 0}
        lb.create(laurels.Board("plain"))
        assert lb.stats("plain").scopes == {}


def whole(lb: laurels.Leaderboards) -> int:
    """Return the memory of all rankings of all scopes, in bytes."""
    index: Any = local(lb)._fold.index
    return sum(part.nbytes for scope, part in index._boards[1].parts.items() if scope)


def test_stats_include_the_memory_of_scopes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ranked_reads, "MEASURED", 50)
    windows = ["all", "day", "3h=rolling:3h/1h"]
    with laurels.open("memory:") as lb:
        lb.create(laurels.Board("b", windows=windows, scopes=[[], ["room"]], rank_by="room"))
        empty = lb.stats("b")
        assert (empty.scopes_nbytes, lb.stats().nbytes >= empty.nbytes) == (0, True)
        for count in (40, 300):
            events = [(f"m{i}", 1, None, None, {"room": str(i % count)}) for i in range(4 * count)]
            lb.submit_many("b", events)
            stats = lb.stats("b")
            assert stats.nbytes == stats.scopes_nbytes + sum(w.nbytes for w in stats.windows)
            assert lb.stats().nbytes > stats.nbytes
            if count == 40:
                assert stats.scopes_nbytes == whole(lb)
        assert stats.scopes_nbytes == pytest.approx(whole(lb), rel=0.1)
        for i in range(1_200):
            lb.remove("b", f"m{i}")
        assert lb.stats("b").scopes_nbytes == whole(lb) < stats.scopes_nbytes / 5


def test_board_show_includes_the_memory_of_scopes(shell: Shell) -> None:
    shell.ok(*CREATE)
    assert "bytes in" not in shell.ok("board", "show", "gifts", "--json").out
    output = shell.ok("board", "show", "gifts").out
    assert "about 0 bytes in" in output


FILE = """
[boards.gifts]
scopes = [[], ["room"]]
rank_by = "room"
"""


def test_a_file_of_boards_can_add_scopes_but_not_remove_them(shell: Shell) -> None:
    assert actions(applied(shell, FILE)) == {"gifts": "create"}
    assert actions(applied(shell, FILE)) == {"gifts": "unchanged"}
    more = FILE.replace('["room"]]', '["room"], ["zone", "gender"]]')
    ran = apply(shell, more)
    assert ran.code == 0
    assert "scopes (), (room) → (), (room), (gender, zone)" in ran.out
    refused = apply(shell, FILE)
    assert refused.code == 1
    assert "scopes stay in their order" in refused.out
    assert (
        "expected a name for a label, got 'a b'"
        in apply(shell, FILE.replace('"room"', '"a b"')).err
    )


def test_apply_shows_the_scopes_of_a_board(shell: Shell) -> None:
    created = apply(shell, FILE, "--dry-run").out
    assert "score in all, by scopes: all; room; by room" in created


def test_a_scope_is_watched(tmp_path: Path) -> None:
    target = feed.live("gifts", labels={"room": "a b"}).target
    assert target.endswith("/live?limit=10&labels=room%3Da%2520b")
    assert feed.live("gifts", by="room", member="42").target.endswith("/live?member=42&by=room")
    with Served(tmp_path / "served") as served, config.remote(served.url) as lb:
        lb.create(laurels.Board("gifts", scopes=[[], ["room"]], rank_by="room"))
        lb.submit_many("gifts", [("ann", 1, None, None, {"room": "42"}), ("bob", 2)])
        lines = wire_of(lb).lines(feed.live("gifts", labels={"room": "42"}))
        ranking = Ranking()
        ranking.apply(next(iter(feed.events(lines))))
        assert [entry.member for entry in ranking.entries] == ["ann"]
        assert drawn(lb.get("gifts"), ranking)[0] == "gifts, all, room=42"
        ranking.apply(next(iter(feed.events(wire_of(lb).lines(feed.live("gifts", by="room"))))))
        title, heading, *_ = drawn(lb.get("gifts"), ranking)
        assert (title, heading.split()) == ("gifts, all, by room", ["rank", "room", "score"])


def drawn(board: laurels.Board, ranking: Ranking) -> list[str]:
    console = Console(width=60)
    with console.capture() as captured:
        console.print(picture(board, ranking))
    return [line.rstrip() for line in captured.get().splitlines()]
