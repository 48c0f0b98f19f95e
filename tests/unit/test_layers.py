"""Only some modules may name concrete stores, and only some modules may read the time or random
numbers.

pyproject.toml declares which folders may import which, and `make lint` checks this.
"""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import laurels

ROOT = Path(laurels.__file__).parent
MODULES = sorted(ROOT.rglob("*.py"))

PURE = ("laurels.core.", "laurels.model.", "laurels.timeline.")
CONCRETE = {
    "laurels.stores.local.index.memory",
    "laurels.stores.local.log.sqlite",
    "laurels.stores.local.log.memory",
    "laurels.stores.local.log.folder",
    "laurels.stores.local.recovery.backup",
}
FOLDER = {
    "laurels.stores.local.log.sqlite",
    "laurels.stores.local.log.folder",
    "laurels.stores.local.recovery.backup",
}
"""The only modules that know the files of a folder."""
CONFIG = "laurels.config."
CHANCE_AND_TIME = {"time", "random", "secrets", "uuid"}
MAY_ASK_THE_WORLD = {
    "laurels.timeline.clock",
    "laurels.server.process.served",
    "laurels.server.process.serving",
    "laurels.server.auth.at_rest",
    "laurels.flows.retries",  # the time between attempts is random
    "laurels.stores.intake.tags",  # no answer depends on these random tags
}
WORLD_ABOVE = ("laurels.cli.", "laurels.config.")
CORE_LIBRARIES = {"laurels", "msgspec", "tzdata"}
STDLIB_CLIENTS = {"sqlite3", "socket", "http.client", "urllib.request"}


def _name(path: Path) -> str:
    parts = path.relative_to(ROOT.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@cache
def _imports(path: Path) -> frozenset[str]:
    """Return the full names of the modules that a file imports."""
    return frozenset(_imported(path))


def _imported(path: Path) -> Iterator[str]:
    package = _name(path).split(".")[: None if path.name == "__init__.py" else -1]
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            origin = ".".join([*base, *([node.module] if node.module else [])])
            yield origin
            yield from (f"{origin}.{alias.name}" for alias in node.names)


def test_only_config_names_concrete_stores() -> None:
    for path in MODULES:
        name = _name(path)
        named = (_imports(path) & CONCRETE) - {name}
        if name in FOLDER:
            named -= FOLDER
        assert name.startswith(CONFIG) or not named, name


def test_modules_below_config_use_no_time_or_randomness() -> None:
    for path in MODULES:
        name = _name(path)
        if name in MAY_ASK_THE_WORLD or f"{name}.".startswith(WORLD_ABOVE):
            continue
        forbidden = {imported.split(".")[0] for imported in _imports(path)} & CHANCE_AND_TIME
        assert not forbidden, name
        assert not re.search(r"\b(environ|getenv)\b", path.read_text()), name


def test_pure_modules_import_no_client() -> None:
    for path in MODULES:
        if _name(path).startswith(PURE):
            assert not _imports(path) & STDLIB_CLIENTS, _name(path)


def test_no_other_module_imports_the_command_line() -> None:
    for path in MODULES:
        name = _name(path)
        if not f"{name}.".startswith(("laurels.cli.", "laurels.__main__.")):
            assert not {each for each in _imports(path) if each.startswith("laurels.cli.")}, name
            assert not {"typer", "rich"} & {each.split(".")[0] for each in _imports(path)}, name
