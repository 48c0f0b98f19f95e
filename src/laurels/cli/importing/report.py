"""The report of imported files: numbers for programs, sentences for people."""

from typing import Any

from laurels.cli.show import complain, put_json, put_line
from laurels.cli.texts import escaped

from .file_import import FileResult

LATE_BY_THE_CLOCK = "import history with --clock event"
LATE_IN_HISTORY = "later events are already counted; import history from its beginning"


def report(board: str, results: list[FileResult], *, json: bool, replayed: bool) -> None:
    """Print the results of the files, as one JSON document if `json` is true, otherwise as a line
    for each."""
    if json and results:
        put_json({"board": board, "files": [_figures(result) for result in results]})
    for result in results:
        _complain_of(result, replayed=replayed)
        if not json:
            put_line(_sentence(result))


def _figures(result: FileResult) -> dict[str, Any]:
    tally = result.tally
    return {
        "file": result.file,
        "source": result.source,
        "resumed_after": result.resumed_after,
        "last_line": result.last_line,
        "lines": tally.lines,
        "applied": tally.applied,
        "unchanged": tally.unchanged,
        "duplicates": tally.duplicates,
        "rejected": tally.rejected,
        "left": tally.left,
        "late": dict(tally.late),
        "reasons": dict(tally.reasons),
        "rejects_file": result.rejects_file,
        "interrupted": result.interrupted,
        "error": None if result.error is None else result.error.code,
        "seconds": round(result.seconds, 3),
    }


def _sentence(result: FileResult) -> str:
    tally = result.tally
    name = escaped(result.file)
    if result.resumed_after and not tally.lines and not tally.left:
        return f"{name}: nothing new after line {result.resumed_after:,}, imported before"
    resumed = f" (resumed after line {result.resumed_after:,})" if result.resumed_after else ""
    left = f", {tally.left:,} later lines not counted yet" if tally.left else ""
    rate = f"{tally.lines / result.seconds:,.0f}/s" if result.seconds > 0 else "at once"
    return (
        f"{name}: {tally.lines:,} lines{resumed}: {tally.applied:,} applied, "
        f"{tally.unchanged:,} unchanged, {tally.duplicates:,} duplicates, "
        f"{tally.rejected:,} rejected{left} ({result.seconds:.1f} s, {rate})"
    )


def _complain_of(result: FileResult, *, replayed: bool) -> None:
    """Print what went wrong with a file, on standard error."""
    tally, name = result.tally, escaped(result.file)
    for reject in tally.first_rejects:
        complain(f"{name}, line {reject.line:,}: [{reject.code}] {reject.message}")
    if tally.rejected:
        by_code = ", ".join(f"{count:,} {code}" for code, count in tally.reasons.most_common())
        complain(f"{name}: {tally.rejected:,} lines rejected ({by_code}): {result.rejects_file}")
    if tally.late:
        by_window = ", ".join(f"{count:,} for {name}" for name, count in tally.late.items())
        hint = LATE_IN_HISTORY if replayed else LATE_BY_THE_CLOCK
        complain(f"{name}: some events were too late ({by_window}); {hint}")
    if result.interrupted and result.source is not None:
        complain(f"{name}: interrupted; run the same command again to continue")
    elif result.interrupted:
        complain(f"{name}: interrupted; without --source the next run counts all lines again")
