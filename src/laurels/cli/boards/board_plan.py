"""The plan of `board apply`: the action for each board, decided before anything is written."""

from collections.abc import Iterable, Sequence
from typing import Any, Literal

import msgspec
from msgspec import Struct

from laurels.api.leaderboards import Leaderboards
from laurels.cli.errors import ChangedMeanwhile
from laurels.errors import BoardExists, UnknownBoard, UnsafeChange
from laurels.model.board import Board
from laurels.model.board_change import named_as, safe_change

Action = Literal["create", "change", "unchanged", "refused"]


class Difference(Struct, frozen=True):
    """A field of a board that changes, with its old and its new value, as in JSON."""

    field: str
    before: Any = msgspec.field(name="from")
    after: Any = msgspec.field(name="to")


class Step(Struct, frozen=True):
    """The action for one board. If the change is refused, `reasons` has the reasons."""

    board: Board
    action: Action
    differences: Sequence[Difference] = ()
    reasons: Sequence[str] = ()


class ApplyPlan(Struct, frozen=True):
    """The steps in the order of the file, and the names of existing boards that are not in it."""

    steps: Sequence[Step]
    others: Sequence[str]

    def of(self, action: Action) -> list[Step]:
        return [step for step in self.steps if step.action == action]

    @property
    def to_do(self) -> list[Step]:
        """The steps that write something; none if any board is refused."""
        if self.of("refused"):
            return []
        return [step for step in self.steps if step.action in ("create", "change")]


def plan_of(existing: Iterable[Board], desired: Sequence[Board]) -> ApplyPlan:
    """Plan the actions that turn the existing boards into those of a file, if that is safe."""
    present = {board.name: board for board in existing}
    named = {board.name for board in desired}
    return ApplyPlan(
        steps=[_step(present.get(board.name), board) for board in desired],
        others=[name for name in present if name not in named],
    )


def _step(old: Board | None, new: Board) -> Step:
    if old is None:
        return Step(new, "create")
    new = named_as(new, old)
    if old == new:
        return Step(new, "unchanged")
    before, after = written(old), written(new)
    differences = [
        Difference(field, before[field], after[field])
        for field in after
        if before[field] != after[field]
    ]
    try:
        safe_change(old, after)
    except UnsafeChange as error:
        return Step(new, "refused", differences, error.reasons)
    return Step(new, "change", differences)


_OMITTED = (
    *("labels", "changes", "changes_max", "head", "hide_zero", "close_wait", "starts", "ends"),
    *("retain", "max_age", "ledger"),
)
"""The fields that the JSON of a board omits if they have their defaults."""


def written(board: Board) -> dict[str, Any]:
    """Return all fields of a definition except its name, as in JSON."""
    fields: dict[str, Any] = msgspec.json.decode(board.to_json())
    del fields["format"], fields["name"]
    return {name: getattr(board, name) for name in _OMITTED} | fields


def carry_out(lb: Leaderboards, step: Step) -> None:
    """Carry out one step with one write.

    A change sets all fields of the board at once, so the board becomes exactly as in the file, or
    stays as it is. Raises ChangedMeanwhile if the board has changed since the plan was made.
    """
    name = step.board.name
    try:
        if step.action == "create":
            lb.create(step.board, exist_ok=True)
        else:
            lb.change(name, **written(step.board))
    except (BoardExists, UnknownBoard, UnsafeChange) as error:
        raise ChangedMeanwhile(
            f"another program has changed the board {name}: {error.what}"
        ) from error
