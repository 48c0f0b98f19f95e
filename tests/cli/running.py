"""Run the command line inside the test's process, and in separate processes."""

import io
import os
import pty
import select
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pytest

from laurels.cli import main

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
"""Code that makes a process kill itself at a certain batch, before or after its commit."""


class Ran(NamedTuple):
    """The result of a command."""

    code: int
    out: str
    err: str

    def json(self) -> Any:
        return msgspec.json.decode(self.out)


class Shell:
    """A function that runs commands in this process, with the boards of one folder."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, directory: Path) -> None:
        self.directory = directory
        self._monkeypatch = monkeypatch
        monkeypatch.setenv("LAURELS_URL", str(directory / "boards"))
        monkeypatch.chdir(directory)

    def __call__(self, *arguments: str | Path, stdin: bytes = b"") -> Ran:
        out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8") for _ in range(2))
        standard_input = io.TextIOWrapper(io.BufferedReader(io.BytesIO(stdin)))
        with self._monkeypatch.context() as patched:
            patched.setattr(sys, "stdin", standard_input)
            patched.setattr(sys, "stdout", out)
            patched.setattr(sys, "stderr", err)
            code = main([str(argument) for argument in arguments])
        return Ran(code, _text(out), _text(err))

    def process(
        self, *arguments: str | Path, prelude: str = "", stdin: bytes = b""
    ) -> "subprocess.CompletedProcess[bytes]":
        """Run a command in a separate process, in which `prelude` runs first."""
        program = f"import sys\nfrom laurels.cli import main\n{prelude}\nsys.exit(main())"
        return subprocess.run(
            [sys.executable, "-c", program, *arguments],
            cwd=self.directory,
            input=stdin,
            capture_output=True,
            check=False,
            timeout=60,
        )

    def on_a_terminal(self, *arguments: str | Path, answer: str = "") -> tuple[int, str]:
        """Run a command on a terminal; return its exit code and everything that it wrote there."""
        keyboard, terminal = pty.openpty()
        program = "import sys\nfrom laurels.cli import main\nsys.exit(main())"
        with subprocess.Popen(
            [sys.executable, "-c", program, *arguments],
            cwd=self.directory,
            env={**os.environ, "TERM": "xterm"},
            stdin=terminal,
            stdout=terminal,
            stderr=terminal,
            start_new_session=True,
        ) as process:
            os.close(terminal)
            if answer:
                os.write(keyboard, f"{answer}\n".encode())
            try:
                output = _output(keyboard, within_s=60)
                return process.wait(60), output
            finally:
                process.kill()
                os.close(keyboard)

    def ok(self, *arguments: str | Path, stdin: bytes = b"") -> Ran:
        """Run a command that must succeed."""
        ran = self(*arguments, stdin=stdin)
        assert ran.code == 0, ran
        return ran

    def json(self, *arguments: str | Path, stdin: bytes = b"") -> Any:
        """Run a command that must succeed with `--json`; return its output, decoded."""
        return self.ok(*arguments, "--json", stdin=stdin).json()

    def file(self, name: str, content: str | bytes) -> Path:
        path = self.directory / name
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    def scores(self, board: str, *options: str) -> dict[str, Any]:
        """Return the scores of a whole ranking by member."""
        lines = self.ok("export", board, "--format", "jsonl", *options).out.splitlines()
        entries = [msgspec.json.decode(line) for line in lines]
        return {entry["member"]: entry["score"] for entry in entries}


def _output(terminal: int, within_s: float) -> str:
    """Return everything that is written to a terminal until it is closed."""
    output = bytearray()
    end = time.monotonic() + within_s
    while time.monotonic() < end:
        if select.select([terminal], [], [], 1)[0]:
            try:
                output += os.read(terminal, 65_536)
            except OSError:
                break
    return output.decode(errors="replace")


def _text(stream: io.TextIOWrapper) -> str:
    stream.flush()
    buffer = stream.buffer
    assert isinstance(buffer, io.BytesIO)
    return buffer.getvalue().decode()
