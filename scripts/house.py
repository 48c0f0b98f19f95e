"""Measure how easy the code is to navigate, and print the figures as a table.

    python scripts/house.py            figures of the source (2 s)
    python scripts/house.py --run      also figures of running a lone `submit` and a `top`

The source is parsed, not imported. The docstring of each function defines the figure that it
returns. Times are those of this machine, so compare medians of several runs.
"""

import argparse
import ast
import io
import statistics
import sys
import threading
import time
import tokenize
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "src" / "laurels"

WINDOW_KINDS = {"All", "Calendar", "Rolling", "Decay"}
WINDOW_TYPES = {"rolling", "decay"}
"""The names, as definitions write them, of the window kinds that are not units of the calendar."""
WINDOW_FIELDS = {"half_life_ms", "half_lives_ms", "refresh_ms", "step_ms", "step_days"}
"""Fields that only windows of one kind have."""
WINDOW_HOMES = ("model/windows/", "model/rules.py", "core/event_columns.py")
"""Files that may depend on window kinds: the kinds themselves, definitions, and the encoder of
events in the log."""
STORE_NAMES = {
    "Service",
    "RedisStore",
    "RemoteStore",
    "AsyncRemoteStore",
    "Leaderboards",
    "AsyncLeaderboards",
}
MOST_PARAMETERS = 10
MOST_LINES = 60
"""The largest numbers of parameters and of lines that a function of the command line may have.
Decorators and the docstring count as lines."""
ADDED_SINCE = (
    "cli/archiving.py",
    "cli/changes.py",
    "cli/copying.py",
    "cli/flows/",
    "cli/moderating.py",
    "cli/payouts.py",
    "cli/settling.py",
    "core/archived.py",
    "core/award_plan.py",
    "core/board_version.py",
    "core/changes/",
    "core/close_schedule.py",
    "core/closing.py",
    "core/copy_checks.py",
    "core/digest.py",
    "core/due_payouts.py",
    "core/excluding.py",
    "core/head.py",
    "core/hidden.py",
    "core/hiding.py",
    "core/hiding_boards.py",
    "core/payout_queries.py",
    "core/payouts.py",
    "core/prizes.py",
    "core/recorded_boards.py",
    "core/settling.py",
    "errors/copies.py",
    "errors/ledger.py",
    "errors/payouts.py",
    "flows/",
    "model/head.py",
    "model/prizes.py",
    "model/windows/archiving.py",
    "model/windows/closing.py",
    "server/verbs/changes.py",
    "server/verbs/copies.py",
    "server/verbs/moderation.py",
    "server/verbs/payouts.py",
    "sql/",
    "stores/answers/",
    "stores/http/copies.py",
    "stores/http/due_payouts.py",
    "stores/http/seen.py",
    "stores/intake/closing.py",
    "stores/intake/confirming.py",
    "stores/intake/copies.py",
    "stores/intake/deleted_positions.py",
    "stores/intake/emission.py",
    "stores/intake/hiding.py",
    "stores/local/answers.py",
    "stores/local/archive/",
    "stores/local/changes/",
    "stores/local/copies.py",
    "stores/local/correcting.py",
    "stores/local/frozen.py",
    "stores/local/index/moving.py",
    "stores/local/index/tracking.py",
    "stores/local/payouts/",
    "stores/local/recovery/sealed_files.py",
    "stores/local/recovery/sealed_period.py",
    "stores/local/seal_draft.py",
    "stores/local/sealing.py",
    "stores/local/sealing_thread.py",
    "stores/local/verifying.py",
    "stores/redis/answers.py",
    "stores/redis/changes.py",
    "stores/redis/copies.py",
    "stores/redis/deletions.py",
    "stores/redis/index/changes.py",
    "stores/redis/index/head.py",
    "stores/redis/index/tracking.py",
    "stores/redis/lua/changes.lua",
    "stores/redis/lua/changes_read.lua",
    "stores/redis/lua/deleted_position.lua",
    "stores/redis/lua/head",
    "stores/redis/lua/tracked.lua",
    "stores/redis/lua/tracking.lua",
    "stores/redis/tracking.py",
    "stores/routed/",
    "wire/copies.py",
)
"""Files that only serve sinks, sources, changes, copies, moves, heads, answers from memory, hiding,
archives or prizes. These features were added after the limit on the lines of code was set."""
WANTED = {
    "files in src/laurels": "8 at most",
    "files that a new question touches": "4 at most",
    "lines of code": "29,500 at most, without features added later",
    "files that know a window kind": "0",
    "casts, ignores and isinstance on our own types": "0",
    "type names with two meanings": "0",
    "exceptions from the import layers": "0",
    "large functions of the command line": "0",
    "functions in a lone submit": "100 at most",
    "files in a lone submit": "16 at most",
    "processor time of a lone submit": "45 µs at most",
    "files in a top of 10": "8 at most",
    "processor time of a top of 10": "5 µs at most",
}


def python_files() -> list[Path]:
    return sorted(SOURCE.rglob("*.py"))


def files_in_root() -> int:
    """Count the files directly in the package."""
    return sum(1 for path in SOURCE.iterdir() if path.is_file() and path.suffix == ".py")


def lines_of_code() -> tuple[int, int]:
    """Count the lines of Python, Cython, Lua and the page, without blanks, comments and docstrings.

    Returns the number of all lines, and the number of lines in the files of `ADDED_SINCE`, which
    belong to features added later. Lines of these features in other files are only in the first
    number.
    """
    suffixes = (".py", ".pyx", ".pxd", ".lua", ".js", ".css", ".html")
    lines = {
        _name(path): _lines_of_file(path)
        for suffix in suffixes
        for path in SOURCE.rglob(f"*{suffix}")
    }
    added = sum(count for name, count in lines.items() if name.startswith(ADDED_SINCE))
    return sum(lines.values()), added


def _lines_of_file(path: Path) -> int:
    source = path.read_text()
    return _python_lines(source) if path.suffix == ".py" else _plain_lines(source, path.suffix)


def _python_lines(source: str) -> int:
    strings = _docstring_lines(ast.parse(source))
    counted: set[int] = set()
    skipped = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT}
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type not in skipped | {tokenize.ENDMARKER}:
            counted.update(range(token.start[0], token.end[0] + 1))
    return len(counted - strings)


def _docstring_lines(tree: ast.Module) -> set[int]:
    lines: set[int] = set()
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        for statement in body if isinstance(body, list) else []:
            value = statement.value if isinstance(statement, ast.Expr) else None
            if isinstance(value, ast.Constant) and isinstance(value.value, str):
                lines.update(range(statement.lineno, (statement.end_lineno or 0) + 1))
    return lines


def _plain_lines(source: str, suffix: str) -> int:
    """Count the lines of a file that is not Python, without blanks, comments and Cython
    docstrings."""
    marks = {".lua": ("--",), ".pyx": ("#",), ".pxd": ("#",), ".js": ("//", "/*", "*")}
    count, in_text = 0, False
    for line in map(str.strip, source.splitlines()):
        if suffix in (".pyx", ".pxd") and (line.startswith('"""') or in_text):
            in_text ^= line.count('"""') % 2 == 1
            continue
        count += bool(line) and not line.startswith(marks.get(suffix, ("\0",)))
    return count


def window_kind_files() -> list[str]:
    """List the files outside `WINDOW_HOMES` that test for a window kind, by its class or by its
    name, or read a field that only windows of one kind have."""
    return [
        _name(path)
        for path in python_files()
        if not _name(path).startswith(WINDOW_HOMES) and _knows_a_kind(ast.parse(path.read_text()))
    ]


def _knows_a_kind(tree: ast.Module) -> bool:
    return any(map(_tests_a_kind, ast.walk(tree)))


def _tests_a_kind(node: ast.AST) -> bool:
    if isinstance(node, ast.Call):
        return _called(node) == "isinstance" and bool(WINDOW_KINDS & _names(node.args[1]))
    if isinstance(node, ast.MatchClass):
        return bool(WINDOW_KINDS & _names(node.cls))
    if isinstance(node, ast.Compare):
        return bool(WINDOW_TYPES & _texts(node))
    return isinstance(node, ast.Attribute) and node.attr in WINDOW_FIELDS


def own_type_escapes() -> list[str]:
    """List the casts, the `type: ignore` comments and the `isinstance` tests of stores in the
    source.

    A `type: ignore` for an attribute or call of another package is not counted.
    """
    return [
        f"{_name(path)}:{line}: {what}"
        for path in python_files()
        for line, what in sorted((*_ignores(path.read_text()), *_escapes(path)))
    ]


def _ignores(text: str) -> Iterator[tuple[int, str]]:
    foreign = ("[attr-defined]", "[no-untyped-call]")
    for number, line in enumerate(text.splitlines(), 1):
        if "# type: ignore" in line and not any(kind in line for kind in foreign):
            yield number, "ignore"


def _escapes(path: Path) -> Iterator[tuple[int, str]]:
    for node in ast.walk(ast.parse(path.read_text())):
        if not isinstance(node, ast.Call):
            continue
        if _called(node) == "cast" and "io" not in _names(node):
            yield node.lineno, "cast"
        of_store = _called(node) == "isinstance" and STORE_NAMES & _names(node.args[1])
        if of_store and path.parent.name != "config":
            yield node.lineno, "isinstance"


def doubled_type_names() -> list[str]:
    """List class names without a leading underscore that are defined more than once."""
    defined: Counter[str] = Counter()
    for path in python_files():
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                defined[node.name] += 1
    return sorted(name for name, times in defined.items() if times > 1)


def layer_exceptions() -> int | None:
    """Count the imports that are exempt from the declared layers; return None if no layers are
    declared."""
    text = (ROOT / "pyproject.toml").read_text()
    if "[tool.importlinter]" not in text:
        return None
    _, _, after = text.partition("ignore_imports = [")
    return sum(1 for line in after.partition("]")[0].splitlines() if "->" in line)


def large_functions(folder: Path = SOURCE / "cli") -> list[str]:
    """List the functions in a folder with more than 10 parameters or more than 60 lines."""
    large = []
    for path in sorted(folder.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                parameters, lines = _parameters(node.args), _lines(node)
                if parameters > MOST_PARAMETERS or lines > MOST_LINES:
                    where = f"{path.relative_to(folder).as_posix()}:{node.lineno}"
                    large.append(f"{where}: {node.name}: {parameters} parameters, {lines} lines")
    return large


def _parameters(arguments: ast.arguments) -> int:
    named = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
    return len(named) + (arguments.vararg is not None) + (arguments.kwarg is not None)


def _lines(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    first = min([function.lineno, *[each.lineno for each in function.decorator_list]])
    return (function.end_lineno or first) - first + 1


def files_of_a_query() -> list[str]:
    """Return the files that have to change for a new query. They are taken from the test that adds
    a query to a copy of the source."""
    tree = ast.parse((ROOT / "tests" / "growing" / "test_a_query.py").read_text())
    for node in tree.body:
        if isinstance(node, ast.Assign) and _names(node.targets[0]) == {"CHANGES"}:
            return list(ast.literal_eval(ast.Tuple(getattr(node.value, "keys", []), ast.Load())))
    return []


def _name(path: Path) -> str:
    return path.relative_to(SOURCE).as_posix()


def _called(node: ast.Call) -> str:
    return node.func.id if isinstance(node.func, ast.Name) else getattr(node.func, "attr", "")


def _texts(node: ast.AST) -> set[str]:
    constants = [n.value for n in ast.walk(node) if isinstance(n, ast.Constant)]
    return {value for value in constants if isinstance(value, str)}


def _names(node: ast.AST) -> set[str]:
    named = {n.id for n in ast.walk(node) if isinstance(n, ast.Name)}
    return named | {n.attr for n in ast.walk(node) if isinstance(n, ast.Attribute)}


class Calls:
    """The functions of laurels that are called while this context manager is entered. Calls in
    another thread are included if `threading.setprofile` was called with `_note` before that thread
    started."""

    def __init__(self) -> None:
        self.codes: set[CodeType] = set()
        self.calls = 0

    @property
    def files(self) -> int:
        return len({code.co_filename for code in self.codes})

    def __enter__(self) -> "Calls":
        sys.setprofile(self._note)
        return self

    def __exit__(self, *_: object) -> None:
        sys.setprofile(None)
        threading.setprofile(None)

    def _note(self, frame: FrameType, event: str, _: object) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(str(SOURCE)):
            self.codes.add(frame.f_code)
            self.calls += 1


def processor_us(call: Callable[[], object], rounds: int = 9, each: int = 2_000) -> float:
    """Return the processor time of one call in microseconds: the median of `rounds` averages, each
    over `each` calls."""
    figures = []
    for _ in range(rounds):
        began = time.process_time_ns()
        for _ in range(each):
            call()
        figures.append((time.process_time_ns() - began) / each / 1_000)
    return statistics.median(figures)


def run_figures() -> Iterator[tuple[str, object]]:
    """Measure a lone `submit` to two windows, and a `top` of 10 on a board of 100, in memory."""
    import laurels  # noqa: PLC0415 (the figures of the source do not need it)

    calls = Calls()
    threading.setprofile(calls._note)  # set this before the commit thread starts
    with laurels.open("memory:") as lb:
        threading.setprofile(None)
        lb.create(laurels.Board("gifts", windows=["all", "day"]))
        for i in range(100):
            lb.submit("gifts", f"member-{i}", i)
        with calls:  # warm up: the first call creates objects and caches
            lb.submit("gifts", "member-7", 1)
        calls.codes.clear()
        calls.calls = 0
        with calls:
            lb.submit("gifts", "member-7", 1)
        yield "calls in a lone submit", calls.calls
        yield "functions in a lone submit", len(calls.codes)
        yield "files in a lone submit", calls.files
    with laurels.open("memory:") as lb:
        lb.create(laurels.Board("gifts", windows=["all", "day"]))
        for i in range(100):
            lb.submit("gifts", f"member-{i}", i)
        submit = processor_us(lambda: lb.submit("gifts", "member-7", 1))
        yield "processor time of a lone submit", f"{submit:.1f} µs"
        lb.top("gifts", limit=10)
        calls = Calls()
        with calls:
            lb.top("gifts", limit=10)
        yield "functions in a top of 10", len(calls.codes)
        yield "files in a top of 10", calls.files
        top = processor_us(lambda: lb.top("gifts", limit=10))
        yield "processor time of a top of 10", f"{top:.1f} µs"


def source_figures() -> Iterator[tuple[str, object, list[str]]]:
    """Yield each figure of the source: its name, its value and the list of what was counted."""
    yield "files in src/laurels", files_in_root(), []
    question = files_of_a_query()
    yield "files that a new question touches", len(question), question
    lines, added = lines_of_code()
    yield "lines of code", f"{lines:,}", []
    yield "  of these in files of later features", f"{added:,}", []
    kinds, escapes, doubled = window_kind_files(), own_type_escapes(), doubled_type_names()
    yield "files that know a window kind", len(kinds), kinds
    yield "casts, ignores and isinstance on our own types", len(escapes), escapes
    yield "type names with two meanings", len(doubled), doubled
    excepted = layer_exceptions()
    yield "exceptions from the import layers", "no layers" if excepted is None else excepted, []
    large = large_functions()
    yield "large functions of the command line", len(large), large


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--run", action="store_true", help="also measure calls by running them")
    parser.add_argument("--list", action="store_true", help="also list what was counted")
    options: Any = parser.parse_args()
    for label, figure, counted in source_figures():
        print(f"{label:<48} {figure!s:>10}   {WANTED.get(label, '')}")
        for each in counted if options.list else ():
            print(f"    {each}")
    for label, figure in run_figures() if options.run else ():
        print(f"{label:<48} {figure!s:>10}   {WANTED.get(label, '')}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
