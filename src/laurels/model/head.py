"""The head of a board: the number of leading positions that it lists. Pure."""

from collections.abc import Iterator, Sequence

from laurels.errors import BoardInvalid
from laurels.model.windows.forms import WindowForm

from .validation import integer_within, quoted, safe_repr

MIN_HEAD, MAX_HEAD = 100, 100_000


def head_of(value: object) -> int:
    """Return the head of a definition, 0 for none. Raises BoardInvalid."""
    most = integer_within(value, 0, MAX_HEAD)
    if most is not None and (most == 0 or most >= MIN_HEAD):
        return most
    raise BoardInvalid(
        f"expected an integer from {MIN_HEAD} to {MAX_HEAD:,} for head, or 0 for none, got "
        f"{safe_repr(value)}"
    )


def head_errors(
    windows: Sequence[WindowForm], rank: object, scopes: object, rank_by: object
) -> Iterator[str]:
    """Yield the reasons why a board with these windows, rank style, scopes and `rank_by` cannot
    have a head."""
    moving = next((form for form in windows if not form.ranks_periods), None)
    if moving is not None:
        yield (
            "expected only the window all and calendar windows on a board with a head, got "
            f"{quoted(moving.name)}: define it on a board of its own"
        )
    if rank == "dense":
        yield "dense ranks need the order of all members, but head is set: rank by competition"
    if scopes != ((),) or rank_by:
        yield (
            "expected no scopes and no rank_by on a board with a head: define them on a board of "
            "their own"
        )
