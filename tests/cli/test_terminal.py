"""`import` on a terminal: the progress bar is drawn for every way of reading a file."""

import gzip

import pytest

from .running import Shell

CONTENT = "member,score,at\n" + "".join(f"m{i % 7},1,2021-03-{1 + i % 28:02}\n" for i in range(300))


@pytest.mark.parametrize("order", [[], ["--clock", "event"]], ids=["as written", "in time order"])
@pytest.mark.parametrize("packed", [False, True], ids=["plain", "packed"])
def test_an_import_on_a_terminal_shows_its_progress(
    shell: Shell, order: list[str], packed: bool
) -> None:
    shell.ok("board", "create", "g", "--clock", "event")
    content = gzip.compress(CONTENT.encode()) if packed else CONTENT
    path = shell.file("in.csv", content)
    code, output = shell.on_a_terminal("import", "g", path, "--batch", "20", *order)
    assert code == 0, output
    assert "Traceback" not in output
    assert "300" in output
    assert sum(shell.scores("g").values()) == 300


def test_json_output_has_no_progress_bar(shell: Shell) -> None:
    shell.ok("board", "create", "g")
    code, output = shell.on_a_terminal("import", "g", shell.file("in.csv", CONTENT), "--json")
    assert (code, output.count("\n")) == (0, 1)
