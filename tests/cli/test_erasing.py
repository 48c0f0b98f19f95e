"""The command `erase` removes a member from all boards, and lists the places that may still name
it."""

from .running import Shell


def test_a_member_is_erased_and_the_rest_is_named(shell: Shell) -> None:
    for board in ("gifts", "likes"):
        shell.ok("board", "create", board)
        shell.ok("import", board, "-", stdin=b"member,score\nann,3\nbob,2\n")
    erased = shell.ok("erase", "ann", "--reason", "asked for it")
    assert erased.out.startswith("ann is erased from 2 boards; 0 sealed periods and 0 payouts name")
    assert all(place in erased.out for place in ("log", "snapshots", "backups"))
    for board in ("gifts", "likes"):
        assert [entry["member"] for entry in shell.json("top", board)["entries"]] == ["bob"]
    [entry] = [each for each in shell.json("audit") if each["verb"] == "erase"]
    assert entry["reason"] == "asked for it"
    assert "ann" not in str(entry["request"])
    again = shell.json("erase", "ann", "--reason", "asked again")
    assert (again["boards"], again["periods"]) == (0, 0)


def test_a_wrong_call_is_refused(shell: Shell) -> None:
    shell.ok("board", "create", "gifts")
    assert shell("erase", "ann").code == 2
    refused = shell("erase", "ann", "--reason", "")
    assert (refused.code, refused.err.split(":")[0]) == (2, "error [invalid_reference]")
