"""All curl lines that users see work without changes: the lines in the documentation, the lines
that `make run` prints, and the lines that a server shows at its first start and on its page."""

from __future__ import annotations

import gzip
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import pytest

from tests.conftest import Scaled
from tests.http.process import WITHIN_SECONDS, Process
from tests.redis.programs import skip_or_fail
from tests.redis.servers import free_port

ROOT = Path(__file__).parents[2]
LINE = re.compile(r"^ *(curl .+)$", re.MULTILINE)
SERVE = re.compile(r"^laurels serve (--data \S+ --open)$", re.MULTILINE)
LINES_OF_A_FIRST_KEY = 4
BEST = 7_592
"""The customer with the highest total in the example."""
NO_PROXY = {**os.environ, "no_proxy": "*"}


@pytest.fixture(autouse=True)
def curl() -> None:
    if shutil.which("curl") is None:
        skip_or_fail("curl is not installed: apt-get install -y curl")


def answer_of(line: str) -> Any:
    """Run a curl line in a shell. Return the document that it prints. For a feed, return the
    document of the first event."""
    with subprocess.Popen(
        ["sh", "-c", f"exec {line}"],
        env=NO_PROXY,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        try:
            if " -N " not in line:
                out, errors = process.communicate(timeout=WITHIN_SECONDS)
                assert process.returncode == 0, (line, errors)
                return json.loads(out)
            for text in process.stdout:
                if text.startswith("data:"):
                    return json.loads(text.removeprefix("data:"))
            raise AssertionError(f"{line} ended without an event: {process.stderr.read()}")
        finally:
            process.kill()


def ensure_works(line: str) -> Any:
    """Run a curl line. Assert that it prints no problem document, and return its document."""
    answer = answer_of(line)
    assert not (isinstance(answer, dict) and "code" in answer), (line, answer)
    return answer


@pytest.mark.parametrize("page", ["README.md", "docs/service.md"])
def test_curl_lines_of_a_documentation_page_work(
    page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = LINE.findall((ROOT / page).read_text("utf-8"))
    (serve,) = set(SERVE.findall((ROOT / "README.md").read_text("utf-8")))
    monkeypatch.chdir(tmp_path)
    _, data, *options = shlex.split(serve)
    with Process(data, *options, keys=True) as server:
        port = server.url.rpartition(":")[2]
        answers = [
            ensure_works(line.replace("localhost:8080", f"localhost:{port}")) for line in lines
        ]
    assert len(answers) >= 4
    assert any(" -N " in line for line in lines)
    assert any(isinstance(answer, dict) and answer.get("status") == "applied" for answer in answers)


def test_curl_lines_of_a_first_start_work(tmp_path: Path) -> None:
    with Process(tmp_path / "boards", keys=True) as server:
        lines = LINE.findall("".join(server.lines(LINES_OF_A_FIRST_KEY)))
        create, listed = map(ensure_works, lines)
        assert create["name"] == "gifts"
        assert [board["name"] for board in listed] == ["gifts"]


def test_the_curl_line_of_a_web_page_without_boards_works(tmp_path: Path) -> None:
    script = (ROOT / "src/laurels/server/static/boards.js").read_text("utf-8")
    (line,) = re.findall(r"`(curl [^`]+)`", script)
    with Process(tmp_path / "boards") as server:
        assert ensure_works(line.replace("${location.origin}", server.url))["title"] == "Gifts"


@contextmanager
def example(folder: Path, port: int, share: int) -> Iterator[IO[str]]:
    """Run `examples/cdnow.py --serve` as `make run` does, and stop it as Ctrl-C does. The example
    loads the purchases of one in `share` customers. The customer BEST is one of them."""
    options = ["--serve", "--port", str(port), "--at", str(folder / "boards")]
    program = folder / "cdnow.py"
    shutil.copy(ROOT / "examples" / program.name, program)
    head, *rows = gzip.decompress((ROOT / "examples/cdnow.csv.gz").read_bytes()).splitlines()
    chosen = [row for row in rows if int(row[: row.index(b",")]) % share == BEST % share]
    program.with_suffix(".csv.gz").write_bytes(gzip.compress(b"\n".join([head, *chosen, b""])))
    with subprocess.Popen(
        [sys.executable, program, *options],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    ) as process:
        assert process.stdout is not None
        try:
            yield process.stdout
            os.killpg(process.pid, signal.SIGINT)
            process.communicate(timeout=WITHIN_SECONDS)
            assert process.returncode == 0
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)


def test_curl_lines_of_the_example_work(tmp_path: Path, scaled: Scaled) -> None:
    with example(tmp_path, free_port(), scaled(40, 1)) as printed:
        output = ""
        for line in printed:
            output += line
            if line.startswith("serving "):
                break
        lines = LINE.findall(output)
        top, standing, event = map(ensure_works, lines)
    assert top["entries"][0]["member"] == f"{BEST:05}"
    assert standing["windows"]["all"]["rank"] == 1
    assert event
