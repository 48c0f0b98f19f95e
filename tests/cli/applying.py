"""Run `board apply` on files that a test writes."""

from __future__ import annotations

from typing import Any

from .running import Ran, Shell

TWO = """
[defaults]
keep = 5

[boards.gifts]
title = "Gifts"
windows = ["all", "day"]

[boards.race]
columns = [{ name = "time", op = "best", order = "asc", scale = 2, max = 99.5 }]
"""


def apply(shell: Shell, content: str, *options: str, name: str = "boards.toml") -> Ran:
    return shell("board", "apply", shell.file(name, content), *options)


def applied(shell: Shell, content: str, *options: str, name: str = "boards.toml") -> Any:
    return shell.json("board", "apply", shell.file(name, content), *options)


def actions(document: Any) -> dict[str, str]:
    return {board["name"]: board["action"] for board in document["boards"]}
