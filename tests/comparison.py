"""Convert records between the oracle and laurels, and compare their answers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict
from decimal import Decimal
from fractions import Fraction
from typing import Any, TypeVar

import laurels
from laurels.errors import LaurelsError
from tests.definitions import Card, DecayedScore, Definition, Place, Refusal, Score, Verdict
from tests.oracle_decay import PLACES

T = TypeVar("T")
Everything = dict[
    tuple[str, str, str | None, tuple[str, ...]], list[tuple[str, int, object, object]]
]


def board_of(definition: Definition) -> laurels.Board:
    """Return the board that a definition of the oracle describes."""
    fields: dict[str, Any] = {
        name: getattr(definition, name)
        for name in laurels.Board.__struct_fields__
        if name not in {"name", "columns", "windows", "labels"} and hasattr(definition, name)
    }
    columns = [asdict(column) for column in definition.columns]
    windows = [window.definition for window in definition.windows]
    return laurels.Board(definition.name, columns=columns, windows=windows, **fields)


def public_score(score: Score | None, definition: Definition) -> Any:
    """Return a score as laurels returns it: an int at scale 0, otherwise a Decimal; for several
    columns, a tuple of them."""
    if score is None:
        return None
    if isinstance(score, DecayedScore):
        return Decimal(score[0]).scaleb(-definition.columns[0].scale - PLACES)
    parts = tuple(
        Decimal(part).scaleb(-column.scale) if column.scale else part
        for part, column in zip(score, definition.columns, strict=False)
    )
    return parts[0] if len(definition.columns) == 1 else parts


def typed(score: object) -> object:
    """Return the columns of a score with their types, so that 1 and Decimal(1) differ."""
    parts = score if isinstance(score, tuple) else (score,)
    return [(type(part), part) for part in parts]


def assert_entries(
    entries: Iterable[laurels.Entry], places: Sequence[Place], definition: Definition
) -> None:
    """Assert that a list of entries equals a list of the oracle's `Place` records."""
    actual = [(entry.member, entry.rank, typed(entry.score)) for entry in entries]
    expected = [
        (place.member, place.rank, typed(public_score(place.score, definition))) for place in places
    ]
    assert actual == expected


def assert_standing(
    standing: laurels.Standing | None, card: Card | None, definition: Definition
) -> None:
    """Assert that a standing equals a `Card` of the oracle."""
    if card is None or standing is None:
        assert standing is None
        assert card is None
        return
    actual = (standing.member, standing.rank, typed(standing.score), standing.total)
    place = card.place
    score = typed(public_score(place.score, definition))
    assert actual == (place.member, place.rank, score, card.total)
    assert abs(Fraction(standing.percent) - card.percent) < Fraction(1, 10**9)
    assert_neighbour(standing.above, card.above, definition)
    assert_neighbour(standing.below, card.below, definition)


def assert_neighbour(
    neighbour: laurels.Neighbour | None,
    expected: tuple[Place, Score] | None,
    definition: Definition,
) -> None:
    """Assert that a neighbour has the expected member, rank, score and gap."""
    if neighbour is None or expected is None:
        assert neighbour is None
        assert expected is None
        return
    place, gap = expected
    actual = (neighbour.member, neighbour.rank, typed(neighbour.score), typed(neighbour.gap))
    score = typed(public_score(place.score, definition))
    assert actual == (place.member, place.rank, score, typed(public_score(gap, definition)))


def assert_receipt(
    receipt: laurels.Receipt, verdict: Verdict, window: str, definition: Definition
) -> None:
    """Assert that a receipt equals a `Verdict` of the oracle in all fields except the message."""
    assert (receipt.status, receipt.reason) == (verdict.status, verdict.reason)
    assert receipt.window == window
    assert (receipt.message is None) == (verdict.reason is None)
    actual = {
        "member": receipt.member,
        "period": receipt.period,
        "previous_score": receipt.previous_score,
        "score": receipt.score,
        "previous_rank": receipt.previous_rank,
        "rank": receipt.rank,
        "refused_windows": receipt.refused_windows,
        "labels": receipt.labels,
    }
    assert actual == {
        "member": verdict.member,
        "period": verdict.period,
        "previous_score": public_score(verdict.previous_score, definition),
        "score": public_score(verdict.score, definition),
        "previous_rank": verdict.previous_rank,
        "rank": verdict.rank,
        "refused_windows": verdict.refused_windows,
        "labels": verdict.labels,
    }


def everything(lb: laurels.Leaderboards) -> Everything:
    """Return every ranking of all boards, scopes and periods as a list of its entries."""
    return {
        (board.name, window, period.label or None, _words(scope)): [
            (entry.member, entry.rank, entry.score, entry.data)
            for entry in lb.export(
                board.name, window=window, period=period.label or None, with_data=True, **scope
            )
        ]
        for board in lb.boards()
        for scope in scopes_of(lb, board)
        for window in board.rules().windows
        for period in lb.periods(board.name, window, **scope)
    }


def _words(scope: dict[str, Any]) -> tuple[str, ...]:
    """Return the scope of a query as text: its labels with their values, or the label whose values
    are ranked."""
    named: dict[str, str] = scope.get("labels", scope)
    return tuple(f"{name}={value}" for name, value in named.items())


def scopes_of(lb: laurels.Leaderboards, board: laurels.Board) -> list[dict[str, Any]]:
    """Return the scope arguments by which a query can name each ranking of a board: the scopes that
    have members, the scope of all events, and the labels whose values are ranked."""
    scopes: list[dict[str, Any]] = [{"by": by} for by in board.rank_by]
    for labels in board.scopes:
        scopes.extend({"labels": each} for each in lb.scopes(board.name, *labels) if labels)
        scopes.extend([] if labels else [{}])
    return scopes


def attempt(ask: Callable[[], object]) -> object:
    """Return the answer of a deployment, or its error."""
    try:
        return ask()
    except LaurelsError as error:
        return error


def attempt_oracle(ask: Callable[[], T]) -> T | Refusal:
    """Return the answer of the oracle, or the error that it raised."""
    try:
        return ask()
    except Refusal as refusal:
        return refusal


def assert_refused(answer: object, refusal: Refusal) -> None:
    """Assert that a deployment refused an operation with the error code of the oracle."""
    assert isinstance(answer, LaurelsError), f"expected {refusal.code}, got {answer!r}"
    assert answer.code == refusal.code, f"expected {refusal.code}, got {answer!r}"
