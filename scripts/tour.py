"""Runs the examples in the pages of PAGES, and writes their outputs into the pages.

    python scripts/tour.py

The examples of a page run in order, in a temporary folder; they share variables and files. They are
in three kinds of blocks:

- `python`: a program. Its output is in the `text` block that follows; if there is none, the program
  prints nothing.
- `pycon`: statements after `>>>`, each followed by its output, or by the last line of its error.
- `console`: commands after `$`, each followed by its output and errors. The output of `make run` is
  long, so its block shows an excerpt.

In a page, `...` matches any output. An output that matches the page is left unchanged, any other is
replaced. An excerpt that does not match is an error.
"""

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import chdir, redirect_stdout
from doctest import ELLIPSIS, OutputChecker
from functools import cache
from io import StringIO
from pathlib import Path
from traceback import format_exception_only
from typing import Any

ROOT = Path(__file__).parent.parent
PAGES = (
    ROOT / "README.md",
    *(
        ROOT / "docs" / name
        for name in (
            "tour.md",
            "semantics.md",
            "recipes.md",
            "sources.md",
            "moderation.md",
            "seasons.md",
        )
    ),
)

_BLOCK = re.compile(
    r"^```(?P<kind>python|pycon|console)\n(?P<body>.*?)^```\n(?:\n```text\n(?P<expected>.*?)^```\n)?",
    re.MULTILINE | re.DOTALL,
)
_EXAMPLE = ROOT / "examples" / "cdnow.py"


class Tour:
    """A run of the examples of one page, in order, in one folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._names: dict[str, Any] = {"__name__": "tour"}

    def true_page(self, text: str) -> str:
        """Return the page with the actual outputs of its examples."""
        with chdir(self._folder):
            return _BLOCK.sub(self._true_block, text)

    def _true_block(self, block: re.Match[str]) -> str:
        kind, body, expected = block["kind"], block["body"], block["expected"]
        if kind == "python":
            return self._true_program(body, expected or "")
        if kind == "pycon":
            return f"```pycon\n{_true_transcript(body, '>>> ', '... ', self._answer)}```\n"
        if body.startswith("$ make run\n"):
            _check_excerpt(body.removeprefix("$ make run\n"))
            return block[0]
        return f"```console\n{_true_transcript(body, '$ ', '> ', self._command)}```\n"

    def _true_program(self, program: str, expected: str) -> str:
        printed = _agreed(expected, self._run(program, "exec"))
        return f"```python\n{program}```\n" + (f"\n```text\n{printed}```\n" if printed else "")

    def _answer(self, statement: str) -> str:
        try:
            return self._run(statement, "single")
        except Exception as error:
            return format_exception_only(error)[-1]

    def _run(self, source: str, mode: str) -> str:
        with redirect_stdout(StringIO()) as printed:
            exec(compile(source, "<page>", mode), self._names)
        return printed.getvalue()

    def _command(self, command: str) -> str:
        return _printed(["sh", "-c", command], self._folder)


def _printed(command: list[str], folder: Path) -> str:
    """Return the output of a command, errors included. Programs of this environment come first in
    PATH."""
    ours = {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", "COLUMNS": "100"}
    theirs = {name: value for name, value in os.environ.items() if name != "LAURELS_URL"}
    done = subprocess.run(
        command,
        cwd=folder,
        env=theirs | ours,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=600,
        check=False,
    )
    return done.stdout


@cache
def _example_output() -> str:
    """Return the output of the example that `make run` runs, in an empty folder."""
    with tempfile.TemporaryDirectory() as folder:
        return _printed([sys.executable, str(_EXAMPLE), "--at", folder], ROOT)


def _check_excerpt(expected: str) -> None:
    if _agreed(expected, printed := _example_output()) != expected:
        raise ValueError(f"the page does not match the output of `make run`, which is\n{printed}")


def _true_transcript(body: str, prompt: str, more: str, run: Callable[[str], str]) -> str:
    """Return a block of prompts with the actual output of each."""
    lines = []
    for source, expected in _prompts(body, prompt, more):
        statement = "".join(line[len(prompt) :] for line in source)
        lines += [*source, _agreed(expected, run(statement))]
    return "".join(lines)


def _prompts(body: str, prompt: str, more: str) -> Iterator[tuple[list[str], str]]:
    """Yield each statement of a block as its lines, with the output that the page shows for it."""
    source: list[str] = []
    expected = ""
    for line in body.splitlines(keepends=True):
        if line.startswith(prompt):
            if source:
                yield source, expected
            source, expected = [line], ""
        elif source and not expected and line.startswith((more, more.rstrip() + "\n")):
            source.append(line)
        else:
            expected += line
    if source:
        yield source, expected


def _agreed(expected: str, printed: str) -> str:
    """Return the output in the page if it matches the actual one, otherwise the actual one."""
    return expected if OutputChecker().check_output(expected, printed, ELLIPSIS) else printed


def true_page(text: str, folder: Path) -> str:
    """Run the examples of a page in an empty folder; return the page with their actual outputs."""
    return Tour(folder).true_page(text)


if __name__ == "__main__":
    for page in PAGES:
        with tempfile.TemporaryDirectory() as folder:
            page.write_text(true_page(page.read_text("utf-8"), Path(folder)), "utf-8")
