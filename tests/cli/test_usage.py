"""Wrong usage prints an error of one line and exits with code 2. Every command has a
description."""

import os
import subprocess
import sys

import pytest

import laurels
from laurels.cli import program

from .running import Shell

COMMANDS = [
    ["top"],
    ["rank"],
    ["around"],
    ["watch"],
    ["scopes"],
    ["export"],
    ["import"],
    ["check"],
    ["rebuild"],
    ["audit"],
    ["hot"],
    ["board", "apply"],
    ["board", "create"],
    ["board", "list"],
    ["board", "show"],
    ["board", "change"],
    ["board", "delete"],
]

WRONG = [
    (["nonsense"], "usage"),
    (["top"], "usage"),
    (["top", "g", "extra"], "usage"),
    (["top", "g", "--nonsense"], "usage"),
    (["top", "g", "--limit"], "usage"),
    (["top", "g", "--limit", "many"], "usage"),
    (["top", "g", "--limit", "-1"], "invalid_limit"),
    (["top", "g", "--limit", "10001"], "invalid_limit"),
    (["top", "g", "--limit", "9" * 40], "invalid_limit"),
    (["top", "g", "--offset", "-1"], "invalid_offset"),
    (["top", "g", "--after", "nonsense"], "invalid_cursor"),
    (["top", "g", "--window", "day"], "unknown_window"),
    (["top", "g", "--period", "2021"], "unknown_period"),
    (["top", "none"], "unknown_board"),
    (["top", "g", "--at", "redis://"], "unknown_url"),
    (["top", "g", "--at", "redis://localhost/boards"], "unknown_url"),
    (["top", "g", "--at", "redis://127.0.0.1:1"], "index_unavailable"),
    (["backup", "b", "--at", "redis://127.0.0.1:1"], "nothing_to_back_up"),
    (["restore", "b", "--at", "redis://127.0.0.1:1"], "nothing_to_back_up"),
    (["top", "g", "--at", ""], "unknown_url"),
    (["rank", "g"], "usage"),
    (["rank", "g", ""], "member_empty"),
    (["rank", "g", "x" * 129], "member_too_long"),
    (["rank", "g", "a", "--to-rank", "0"], "invalid_rank"),
    (["rank", "g", "a", "b", "--to-rank", "1"], "usage"),
    (["around", "g", "a", "--radius", "-1"], "invalid_radius"),
    (["around", "g", "a", "--radius", "5001"], "invalid_radius"),
    (["export", "g", "--format", "xml"], "usage"),
    (["export", "g", "--format", "csv", "--json"], "usage"),
    (["import", "g"], "usage"),
    (["import", "g", "missing.csv"], "source_unreadable"),
    (["import", "g", "."], "source_unreadable"),
    (["import", "g", "in.csv", "in.csv"], "usage"),
    (["import", "g", "in.csv", "-", "--source", "x"], "usage"),
    (["import", "g", "in.csv", "-", "--rejects", "x"], "usage"),
    (["import", "g", "in.csv", "--batch", "0"], "usage"),
    (["import", "g", "in.csv", "--batch", "100001"], "usage"),
    (["import", "g", "in.csv", "--format", "xml"], "usage"),
    (["import", "g", "in.csv", "--delimiter", ""], "usage"),
    (["import", "g", "in.csv", "--delimiter", "ab"], "usage"),
    (["import", "g", "in.csv", "--delimiter", '"'], "usage"),
    (["import", "g", "in.csv", "--tz", "Mars/Phobos"], "usage"),
    (["import", "g", "in.csv", "--tz", "../etc"], "usage"),
    (["import", "g", "in.csv", "--at-format", "unix"], "usage"),
    (["import", "g", "in.csv", "--at-format", "%Y-%Y"], "usage"),
    (["import", "g", "in.csv", "--at-format", "%Q"], "usage"),
    (["import", "g", "in.csv", "--at-format", "%Y%"], "usage"),
    (["import", "g", "in.csv", "--rejects", "."], "output_failed"),
    (["export", "g", "-o", "."], "output_failed"),
    (["export", "g", "-o", "/etc/passwd/x"], "output_failed"),
    (["export", "g", "-o", "missing/x"], "output_failed"),
    (["import", "g", "in.csv", "--clock", "wall"], "usage"),
    (["import", "g", "in.csv", "--member", "user"], "usage"),
    (["import", "g", "in.csv", "--value", "a", "--value", "b"], "usage"),
    (["import", "g", "in.csv", "--at-column", "day"], "usage"),
    (["import", "g", "in.csv", "--no-header", "--member", "member"], "usage"),
    (["import", "g", "in.csv", "--rejects", "missing/x.csv"], "output_failed"),
    (["import", "none", "in.csv"], "unknown_board"),
    (["board"], "usage"),
    (["--nonsense"], "usage"),
    (["board", "nonsense"], "usage"),
    (["board", "create"], "usage"),
    (["board", "create", "bad name"], "invalid_name"),
    (["board", "create", "b", "--keep", "few"], "usage"),
    (["board", "create", "b", "--clock", "wall"], "usage"),
    (["board", "create", "b", "--file", "missing.json"], "source_unreadable"),
    (["board", "apply"], "usage"),
    (["board", "apply", "missing.toml"], "source_unreadable"),
    (["board", "apply", "in.csv"], "invalid_toml"),
    (["board", "show", "none"], "unknown_board"),
    (["board", "change", "none", "--keep", "1"], "unknown_board"),
    (["board", "change", "g", "--keep", "0"], "invalid_board"),
    (["board", "change", "g", "--window", "decade"], "invalid_board"),
    (["board", "delete", "none", "--yes"], "unknown_board"),
    (["audit", "--limit", "0"], "usage"),
    (["hot"], "usage"),
    (["hot", "--at", "redis://127.0.0.1:1"], "usage"),
]


@pytest.fixture
def board(shell: Shell) -> Shell:
    shell.ok("board", "create", "g")
    shell.file("in.csv", "member,score\na,1\n")
    return shell


@pytest.mark.parametrize(("arguments", "code"), WRONG, ids=[" ".join(a)[:40] for a, _ in WRONG])
def test_wrong_usage_is_refused_with_a_code(board: Shell, arguments: list[str], code: str) -> None:
    ran = board(*arguments)
    assert ran.code == 2
    assert ran.out == ""
    assert ran.err.startswith(f"error [{code}]: ")
    assert ran.err.count("\n") == 1


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_help_has_an_example(shell: Shell, command: list[str]) -> None:
    ran = shell.ok(*command, "--help")
    assert "Example" in ran.out
    assert f"laurels {' '.join(command)}" in ran.out
    assert "--at URL" in ran.out
    assert "--json" in ran.out
    assert "\b" not in ran.out


def test_help_lists_the_commands(shell: Shell) -> None:
    assert shell("--help").code == 0
    out = shell("--help").out
    for command, *_ in COMMANDS:
        assert command in out


def test_without_a_command_the_help_is_shown(shell: Shell) -> None:
    assert shell.ok().out == shell.ok("--help").out


def test_a_folder_in_use_names_the_process(board: Shell) -> None:
    url = str(board.directory / "boards")
    with laurels.open(url):
        ran = board.process("top", "g", "--at", url)
    assert ran.returncode == 2
    assert ran.stderr.startswith(b"error [locked]: ")


def test_an_argument_that_is_not_utf8_is_refused(board: Shell) -> None:
    ran = board.process("rank", "g", "a\udcff", "--at", str(board.directory / "boards"))
    assert ran.returncode == 2
    assert ran.stderr.startswith(b"error [member_not_utf8]: ")


def test_the_command_line_runs_as_a_module() -> None:
    ran = subprocess.run(
        [sys.executable, "-m", "laurels.cli", "top", "--help"],
        capture_output=True,
        check=True,
        timeout=60,
    )
    assert ran.stdout.startswith(b"Usage: laurels top")


def test_the_version_is_shown(shell: Shell) -> None:
    assert shell.ok("--version").out == f"laurels {laurels.__version__}\n"


def _in_a_shell(shell: Shell, command: str, **environment: str) -> tuple[int, str]:
    ran = subprocess.run(
        ["sh", "-c", f"{sys.executable} -m laurels.cli {command}"],
        cwd=shell.directory,
        env={**os.environ, **environment},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
        timeout=60,
    )
    return ran.returncode, ran.stderr.decode()


@pytest.mark.parametrize(
    ("command", "code"),
    [
        ("top g > /dev/full", "output_failed"),
        ("export g > /dev/full", "output_failed"),
        ("top g --json > /dev/full", "output_failed"),
        ("export g -o /dev/full", "output_failed"),
        ("top g >&-", "output_failed"),
        ("import g - <&-", "source_unreadable"),
        ("board create b --file - <&-", "source_unreadable"),
        ("board apply - <&-", "source_unreadable"),
        ("board delete g <&-", "usage"),
    ],
)
def test_a_full_device_or_a_closed_stream_is_an_error(
    board: Shell, command: str, code: str
) -> None:
    board.ok("import", "g", "in.csv")
    ended, output = _in_a_shell(board, command)
    assert ended == 2
    assert output.startswith(f"error [{code}]: ")
    assert output.count("\n") == 1


def test_an_error_with_a_closed_stderr_still_ends_with_2(board: Shell) -> None:
    assert _in_a_shell(board, "top none 2>&-") == (2, "")


def test_text_that_the_terminal_cannot_show_is_escaped(board: Shell) -> None:
    board.ok("import", "g", "-", stdin="member,score\nlüß,1\n".encode())
    assert _in_a_shell(board, "top g > out.txt", PYTHONIOENCODING="ascii:strict") == (0, "")
    assert "l\\xfc\\xdf" in (board.directory / "out.txt").read_text()


def test_the_package_runs_as_the_command_line() -> None:
    command = [sys.executable, "-m", "laurels", "--version"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.split()[-1] == laurels.__version__


def test_a_command_imports_only_what_it_needs() -> None:
    imports = "from laurels.cli import program; program.program('top'); import sys; "
    modules = "print(*(name for name in sys.modules if name.startswith('laurels.cli.')))"
    done = subprocess.run(
        [sys.executable, "-c", imports + modules], capture_output=True, text=True, check=True
    )
    imported = {name.removeprefix("laurels.cli.") for name in done.stdout.split()}
    others = {*program.GROUPS.values(), *program.COMMANDS.values()} - {"answers", "boards.scoping"}
    assert "answers" in imported
    assert imported.isdisjoint(others)
