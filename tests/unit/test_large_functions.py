"""Functions of the command line take at most 10 parameters and have at most 60 lines."""

from pathlib import Path

from scripts.house import large_functions


def test_the_command_line_has_no_large_function() -> None:
    assert large_functions() == []


def test_parameters_are_counted(tmp_path: Path) -> None:
    most = ", ".join(f"p{i}" for i in range(10))
    (tmp_path / "a.py").write_text(
        f"def most({most}): ...\n"
        f"def more({most}, *, one): ...\n"
        f"async def starred({most}, *rest, **named): ...\n"
    )
    assert large_functions(tmp_path) == [
        "a.py:2: more: 11 parameters, 1 lines",
        "a.py:3: starred: 12 parameters, 1 lines",
    ]


def test_lines_are_counted_from_the_first_decorator(tmp_path: Path) -> None:
    body = "    pass\n" * 59
    (tmp_path / "a.py").write_text(f"def most():\n{body}\n@cache\ndef more():\n{body}")
    assert large_functions(tmp_path) == ["a.py:63: more: 0 parameters, 61 lines"]
