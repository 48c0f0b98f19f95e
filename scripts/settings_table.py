"""Writes the table in docs/configuration.md from laurels.server.process.settings.

python scripts/settings_table.py
"""

import re
from pathlib import Path
from typing import get_args, get_origin

from laurels.server.process.settings import Setting, table

PAGE = Path(__file__).parent.parent / "docs" / "configuration.md"
_TABLE = re.compile(r"(?<=\|---\|---\|---\|---\|\n)(\|.*\n)*")


def page() -> str:
    """Return the whole page, with an up-to-date table."""
    return _TABLE.sub("".join(map(_line, table())), PAGE.read_text(encoding="utf-8"))


def _line(setting: Setting) -> str:
    return (
        f"| `{setting.name}` | {_kind(setting)} | {_default(setting.default)} | {setting.does} |\n"
    )


def _kind(setting: Setting) -> str:
    """Return the text for the type of a setting, with its bounds."""
    kind = setting.kind
    if choices := [choice for choice in get_args(kind) if isinstance(choice, str)]:
        return " or ".join(f"`{choice}`" for choice in choices)
    if get_origin(kind) is list:
        return "list of str"
    if setting.least is None:
        return str(kind.__name__)
    to = " or more" if setting.most is None else f" to {setting.most:,}"
    return f"{kind.__name__}, {setting.least:,}{to}"


def _default(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int):
        return f"{value:,}" if value > 9_999 else str(value)
    return f"`{value}`" if value else "none"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
