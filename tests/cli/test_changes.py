"""`laurels changes` prints a line for each change, and can continue after any change."""

import laurels

from .running import Shell


def test_changes_are_shown(shell: Shell) -> None:
    shell("board", "create", "gifts", "--changes", "7d")
    with laurels.open(str(shell.directory / "boards")) as lb:
        lb.change("gifts", scopes=[[], ["room"]])
        lb.submit("gifts", "ann", 5, id="a b", labels={"room": "42"})
        lb.submit("gifts", "ann", -7)
        lb.set_data("gifts", "ann", {"n": 1})
        lb.remove("gifts", "ann")
    lines = shell("changes", "gifts").out.splitlines()
    assert [line.split("  ")[1].strip() for line in lines] == [
        "create",
        "change",
        "event",
        "event",
        "data",
        "remove",
    ]
    assert lines[-4].endswith("event     ann  +5  = 5  room=42  id=a b")
    assert lines[-3].endswith("event     ann  -7  = -2")
    assert lines[-2].endswith('data      ann  {"n":1}')
