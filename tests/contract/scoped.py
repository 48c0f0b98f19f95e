"""Label values for tests of scopes."""

from __future__ import annotations

from typing import Any

ODD = ["a,b", "x=y", "%", "%2C", "é", "日本", " ", "@room", "{}", "a,zone=b", "\x00", "+", "a/b"]
"""Label values that are easily confused with a number, an operator or other syntax."""


def anything(value: object) -> Any:
    """Return a value that a caller without a type checker may pass."""
    return value
