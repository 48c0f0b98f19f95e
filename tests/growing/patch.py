"""Insert the code of an extension into a copy of the source, and run the copy."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

Insertion = tuple[str, str]
"""A line of a file, and the text that is inserted before it."""


def patched(folder: Path, changes: Mapping[str, Sequence[Insertion]]) -> Path:
    """Copy the package into a folder and insert texts into its files; a file that does not exist is
    created. Return the folder."""
    shutil.copytree(
        ROOT / "src" / "laurels",
        folder / "laurels",
        ignore=shutil.ignore_patterns("__pycache__", "*.c", "*.pyx", "*.pxd"),
    )
    for name, insertions in changes.items():
        path = folder / "laurels" / name
        source = path.read_text() if path.exists() else ""
        for line, text in insertions:
            assert source.count(line) == 1, f"{name}: {line!r} occurs {source.count(line)} times"
            source = source.replace(line, text + line)
        path.write_text(source)
    return folder


def run(folder: Path, program: str, *arguments: str) -> str:
    """Run a program with the tests and the patched package on its path; return its output."""
    done = subprocess.run(
        [sys.executable, "-c", program, *arguments],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(folder), str(ROOT)])},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout
