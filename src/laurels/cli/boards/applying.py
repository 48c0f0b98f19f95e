"""`board apply`: creates the boards of a file, and changes existing ones where that is safe."""

from collections.abc import Sequence
from typing import Annotated, Any

import typer

import laurels
from laurels.cli.option_groups import command
from laurels.cli.options import DEFAULT_URL, AsJson, Url
from laurels.cli.progress import count_bar
from laurels.cli.show import complain, put_json, put_line, put_table
from laurels.errors import BoardInvalid, FolderMissing, LaurelsError

from .board_file import boards_in
from .board_plan import ApplyPlan, Step, carry_out, plan_of
from .commands import Clock, app, summary

REFUSED = 1
_FEW = 20
"""The maximum number of boards that are written without a progress bar."""
_ADVICE = laurels.errors.UnsafeChange.advice


@command(app, "apply")
def apply(
    file: Annotated[
        str, typer.Argument(metavar="FILE", help="Boards as TOML or JSON; - reads them from stdin.")
    ],
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what would be done, and change nothing.")
    ] = False,
    clock: Clock = None,
    at: Url = DEFAULT_URL,
    json: AsJson = False,
) -> int:
    """Create and change the boards of a file, and the folder if there is none.

    The file has the complete definition of each board: an omitted field gets its default. Boards
    that are not in the file stay as they are. If one board cannot be changed safely, nothing is
    done, and the command exits with 1. Running the command again changes nothing.

    \b
    Examples:
      laurels board apply boards.toml --dry-run
      laurels board apply boards.toml --at redis://localhost:6379/0
      laurels board list --json | laurels board apply - --at http://localhost:8080
    """
    desired = _desired_boards(file)
    if dry_run:
        plan = plan_of(_existing_boards(at, clock), desired)
        _put_result(plan, [], dry_run=True, json=json)
        return REFUSED if plan.of("refused") else 0
    with laurels.open(at, clock=clock, create=True) as lb:
        plan = plan_of(lb.boards(), desired)
        if not json:
            _put_plan(plan)
        _carry_out(lb, plan, json=json)
    return REFUSED if plan.of("refused") else 0


def _desired_boards(file: str) -> list[laurels.Board]:
    """Return the boards of a file. If the file has several errors, print each on a line."""
    try:
        return boards_in(file)
    except BoardInvalid as error:
        if len(error.errors) == 1:
            raise
        for message in error.errors:
            complain(message)
        raise BoardInvalid(f"{len(error.errors)} errors, and nothing was done") from error


def _existing_boards(at: str, clock: str | None) -> list[laurels.Board]:
    """Return the boards that exist; reading them creates no folder."""
    try:
        with laurels.open(at, clock=clock, create=False) as lb:
            return lb.boards()
    except FolderMissing:
        return []


def _carry_out(lb: laurels.Leaderboards, plan: ApplyPlan, *, json: bool) -> None:
    """Carry out the plan board by board. Print what was done, even if an error ends it early."""
    done: list[Step] = []
    try:
        many = len(plan.to_do) > _FEW
        with count_bar(many and not json, "boards", len(plan.to_do), "boards") as report_done:
            for step in plan.to_do:
                carry_out(lb, step)
                done.append(step)
                report_done(len(done))
    except (LaurelsError, KeyboardInterrupt) as error:
        _put_result(plan, done, json=json, stopped_by=error)
        raise
    _put_result(plan, done, json=json)


def _put_result(
    plan: ApplyPlan,
    done: Sequence[Step],
    *,
    json: bool,
    dry_run: bool = False,
    stopped_by: BaseException | None = None,
) -> None:
    if json:
        put_json(_document(plan, done, dry_run=dry_run, stopped_by=stopped_by))
        return
    if dry_run:
        _put_plan(plan)
    put_line(_summary(plan, done, dry_run=dry_run, stopped=stopped_by is not None))


def _document(
    plan: ApplyPlan, done: Sequence[Step], *, dry_run: bool, stopped_by: BaseException | None
) -> dict[str, Any]:
    finished = {step.board.name for step in done}
    return {
        "boards": [
            {
                "name": step.board.name,
                "action": step.action,
                "changes": step.differences,
                "reasons": step.reasons,
                "done": step.board.name in finished,
            }
            for step in plan.steps
        ],
        "others": plan.others,
        "dry_run": dry_run,
        "interrupted": isinstance(stopped_by, KeyboardInterrupt),
        "error": stopped_by.code if isinstance(stopped_by, LaurelsError) else None,
    }


def _put_plan(plan: ApplyPlan) -> None:
    """Print a line for each board that differs from the file."""
    steps = [step for step in plan.steps if step.action != "unchanged"]
    if steps:
        put_table(
            [("board", "left"), ("plan", "left"), ("", "left")],
            [[step.board.name, step.action, _step_text(step)] for step in steps],
        )


def _step_text(step: Step) -> str:
    if step.action == "create":
        return summary(step.board)
    if step.action == "refused":
        return "; ".join(step.reasons)
    return "; ".join(
        f"{each.field} {_value_text(each.before)} → {_value_text(each.after)}"
        for each in step.differences
    )


def _value_text(value: object) -> str:
    if isinstance(value, list):
        return ", ".join([_item_text(each) for each in value]) or "none"
    return f"'{value}'" if isinstance(value, str) else str(value)


def _item_text(value: object) -> str:
    return f"({', '.join(map(str, value))})" if isinstance(value, list) else str(value)


def _summary(plan: ApplyPlan, done: Sequence[Step], *, dry_run: bool, stopped: bool) -> str:
    refused, unchanged = len(plan.of("refused")), len(plan.of("unchanged"))
    counts = []
    if refused:
        counts.append(f"{refused:,} refused")
    if refused or dry_run:
        create, change = len(plan.of("create")), len(plan.of("change"))
        counts += [f"{create:,} to create", f"{change:,} to change"]
    else:
        created = sum(step.action == "create" for step in done)
        counts += [f"{created:,} created", f"{len(done) - created:,} changed"]
    counts.append(f"{unchanged:,} unchanged")
    if plan.others:
        counts.append(f"{len(plan.others):,} not in the file")
    text = ", ".join(counts)
    if stopped:
        return f"stopped after {len(done):,} of {len(plan.to_do):,} boards: {text}"
    if refused:
        return f"{text}; nothing was done: {_ADVICE}"
    return f"{text}; nothing was done (--dry-run)" if dry_run else text
