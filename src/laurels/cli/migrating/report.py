"""The report of an imported sorted set: numbers for programs, sentences for people."""

from typing import Any

from laurels.cli.show import complain, put_json, put_line
from laurels.cli.texts import escaped, number

from .comparing import ComparisonResult, Differing
from .sorted_set import SetResult


def report(board: str, result: SetResult, *, json: bool) -> None:
    """Print the result for a sorted set, as one JSON document if `json` is true, otherwise as
    sentences."""
    if json:
        put_json({"board": board, **_figures(result)})
    _complain_of(result)
    if not json:
        put_line(_sentence(result))
        if result.compared is not None:
            put_line(_comparison(escaped(result.name), result.compared))


def _figures(result: SetResult) -> dict[str, Any]:
    taken = result.takeover
    return {
        "from": result.name,
        "source": result.source,
        "resumed_after": taken.resumed_after,
        "read": taken.read,
        "applied": taken.applied,
        "unchanged": taken.unchanged,
        "rejected": taken.rejected,
        "disturbed": taken.disturbed,
        "data": taken.data,
        "data_left": taken.data_left,
        "reasons": dict(taken.reasons),
        "rejects_file": result.rejects_file,
        "compared": result.compared,
        "interrupted": result.interrupted,
        "error": None if result.error is None else result.error.code,
        "seconds": round(result.seconds, 3),
    }


def _sentence(result: SetResult) -> str:
    taken = result.takeover
    resumed = f" (resumed after {taken.resumed_after:,})" if taken.resumed_after else ""
    data = f", {taken.data:,} with data" if taken.data else ""
    rate = f"{taken.read / result.seconds:,.0f}/s" if result.seconds > 0 else "at once"
    return (
        f"{escaped(result.name)}: {taken.read:,} members{resumed}: {taken.applied:,} set, "
        f"{taken.unchanged:,} unchanged, {taken.rejected:,} rejected{data} "
        f"({result.seconds:.1f} s, {rate})"
    )


def _comparison(name: str, compared: ComparisonResult) -> str:
    changed = f", {compared.changed:,} changed meanwhile" if compared.changed else ""
    verdict = "agree in score and position"
    if not compared.agrees:
        verdict = "do not all agree"
    elif compared.reordered:
        verdict = (
            "agree in score, and in position except for equal scores: "
            f"{compared.reordered:,} of them are in another order than in the set "
            f"({_names(compared.first_reordered)}), since the board has its own tie rule"
        )
    return f"{name}: {compared.members:,} members compared{changed}: they {verdict}"


def _complain_of(result: SetResult) -> None:
    """Print what went wrong, on standard error."""
    taken, name = result.takeover, escaped(result.name)
    for reject in taken.first_rejects:
        complain(f"{name}, member {reject.line:,}: [{reject.code}] {reject.message}")
    if taken.reasons:
        by_code = ", ".join(f"{count:,} {code}" for code, count in taken.reasons.most_common())
        complain(
            f"{name}: {taken.rejected:,} members rejected, data of {taken.data_left:,} members "
            f"rejected ({by_code}): {result.rejects_file}"
        )
    if taken.disturbed:
        complain(
            f"{name}: {taken.disturbed:,} members had another score just after they were set: "
            "another program is writing to the board"
        )
    if result.compared is not None:
        _complain_of_differences(name, result.compared)
    if result.interrupted:
        complain(f"{name}: interrupted; run the same command again to continue")


def _complain_of_differences(name: str, compared: ComparisonResult) -> None:
    if compared.differ:
        listed = ", ".join(map(_difference, compared.first_differing))
        complain(f"{name}: {compared.differ:,} members differ on the board: {listed}")
    if compared.only_on_board:
        complain(
            f"{name}: {compared.only_on_board:,} members are only on the board: they were there "
            f"before the import, or have left the set since: {_names(compared.first_only_on_board)}"
        )
    if compared.misplaced:
        complain(
            f"{name}: {compared.misplaced:,} members rank below members with worse scores: "
            f"{_names(compared.first_misplaced)}"
        )
    if compared.changed:
        complain(
            f"{name}: {compared.changed:,} members changed during the import and were set again: "
            f"{_names(compared.first_changed)}"
        )


def _difference(differing: Differing) -> str:
    board = "nothing" if differing.board is None else number(differing.board)
    return f"{escaped(differing.member)} has {board} instead of {number(differing.source)}"


def _names(members: list[str]) -> str:
    return ", ".join(map(escaped, members))
