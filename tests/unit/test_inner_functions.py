"""Each function that a test defines within another function is used. Otherwise a test whose steps
are in such a function would pass without running them."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

TESTS = Path(__file__).parent.parent
Function = ast.FunctionDef | ast.AsyncFunctionDef


def unused(source: str) -> list[str]:
    """Return the names of the functions without a decorator that are within a function, outside
    classes, and that it does not name."""
    tree = ast.parse(source)
    bodies = [tree.body, *(node.body for node in tree.body if isinstance(node, ast.ClassDef))]
    outer = [node for body in bodies for node in body if isinstance(node, Function)]
    return [name for function in outer for name in _unused(function)]


def _unused(function: ast.AST) -> Iterator[str]:
    nodes = [node for node in ast.walk(function) if node is not function]
    named = {node.id for node in nodes if isinstance(node, ast.Name)}
    methods = {id(each) for node in nodes if isinstance(node, ast.ClassDef) for each in node.body}
    inner = [node for node in nodes if isinstance(node, Function) and not node.decorator_list]
    return (node.name for node in inner if node.name not in named and id(node) not in methods)


def test_unused_functions_are_found() -> None:
    source = "def test():\n    with x:\n        def run():\n            pass\n"
    assert unused(source) == ["run"]
    assert unused(source + "    call(run)\n") == []


def test_every_function_within_a_function_is_used() -> None:
    found = {path.name: unused(path.read_text()) for path in sorted(TESTS.rglob("*.py"))}
    assert {name: names for name, names in found.items() if names} == {}
