"""`hide`, `show` and `hidden`: the members that moderators leave out of the rankings."""

import pytest

from .running import Shell


@pytest.fixture
def gifts(shell: Shell) -> Shell:
    shell.ok("board", "create", "gifts")
    shell.ok("import", "gifts", "-", stdin=b"member,score\nann,3\nbob,2\n")
    return shell


def test_a_member_is_hidden_listed_and_shown_again(gifts: Shell) -> None:
    hidden = gifts.ok("hide", "gifts", "ann", "--reason", "scripted gifts")
    assert hidden.out == "ann is hidden on gifts\n"
    assert [entry["member"] for entry in gifts.json("top", "gifts")["entries"]] == ["bob"]
    [listed] = gifts.json("hidden", "gifts")
    assert (listed["member"], listed["reason"], listed["until_ms"]) == (
        "ann",
        "scripted gifts",
        None,
    )
    assert "scripted gifts" in gifts.ok("hidden", "gifts").out
    assert gifts("rank", "gifts", "ann").code == 1
    assert gifts.ok("show", "gifts", "ann").out == "ann is shown again on gifts\n"
    again = gifts("show", "gifts", "ann")
    assert (again.code, again.out) == (1, "ann was not hidden on gifts\n")
    assert gifts.json("hidden", "gifts") == []
    [entry] = [each for each in gifts.json("audit", "gifts") if each["verb"] == "hide"]
    assert (entry["reason"], entry["request"]["member"]) == ("scripted gifts", "ann")


def test_a_hiding_has_an_end(gifts: Shell) -> None:
    until = ["--until", "2099-12-01T12:00Z"]
    hidden = gifts.ok("hide", "gifts", "ann", "--reason", "review", *until)
    assert hidden.out == "ann is hidden on gifts until 2099-12-01T12:00:00Z\n"
    assert "2099-12-01T12:00:00Z" in gifts.ok("hidden", "gifts").out
    for wrong, code in (("yesterday", "invalid_at"), ("2001-01-01", "invalid_hiding")):
        refused = gifts("hide", "gifts", "bob", "--reason", "review", "--until", wrong)
        assert (refused.code, refused.err.split(":")[0]) == (2, f"error [{code}]")
    assert gifts("hide", "gifts", "bob").code == 2


def test_a_member_is_hidden_on_all_boards(gifts: Shell) -> None:
    hidden = gifts.ok("hide", "ann", "--all", "--reason", "banned")
    assert hidden.out == "ann is hidden on all boards\n"
    assert [each["everywhere"] for each in gifts.json("hidden")] == [True]
    assert "all boards" in gifts.ok("hidden", "gifts").out
    refused = gifts("show", "gifts", "ann")
    assert (refused.code, refused.err.split(":")[0]) == (2, "error [hidden_everywhere]")
    assert gifts.ok("show", "ann", "--all").out == "ann is shown again on all boards\n"
    for wrong in (["show", "ann"], ["show", "gifts", "ann", "--all"]):
        assert gifts(*wrong).code == 2
