"""What tests of scopes give as labels."""

from __future__ import annotations

from typing import Any

ODD = ["a,b", "x=y", "%", "%2C", "é", "日本", " ", "@room", "{}", "a,zone=b", "\x00", "+", "a/b"]
"""Values that could be taken for something else."""


def anything(value: object) -> Any:
    """What a caller without a type checker may give."""
    return value
