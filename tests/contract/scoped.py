"""Label values for tests of scopes."""

from __future__ import annotations

from typing import Any

import pytest

from laurels.errors import LaurelsError

ODD = ["a,b", "x=y", "%", "%2C", "é", "日本", " ", "@room", "{}", "a,zone=b", "\x00", "+", "a/b"]
"""Label values that are easily confused with a number, an operator or other syntax."""


def anything(value: object) -> Any:
    """Return a value that a caller without a type checker may pass."""
    return value


def code_of(refused: pytest.ExceptionInfo[LaurelsError]) -> str:
    """Return the code of an error, which must say what to do."""
    assert refused.value.advice
    return refused.value.code
