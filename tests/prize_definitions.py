"""The prizes of a window, as the oracle defines them. No laurels module is imported here."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from decimal import Decimal
from typing import Any


@dataclass(frozen=True)
class PrizeDef:
    """One prize: it is for the positions `ranks`, for the leading `percent`, or for scores that
    have reached `at_least`, one number for each of the first columns. `amount` has `scale` decimal
    places."""

    name: str
    ranks: tuple[int, int] | None = None
    percent: Decimal | None = None
    at_least: tuple[int, ...] | None = None
    amount: Decimal | None = None
    scale: int = 0


@dataclass(frozen=True)
class PrizesDef:
    """The prizes of a window, which are awarded in the scopes with these label names."""

    list: tuple[PrizeDef, ...]
    ties: str = "all"
    pay_after: str = "0s"
    scopes: tuple[tuple[str, ...], ...] = ((),)

    @property
    def text(self) -> str:
        """Return the prizes as JSON."""
        fields: dict[str, Any] = asdict(self)
        fields["list"] = [_stated(each) for each in self.list]
        return json.dumps(fields)


def _stated(prize: PrizeDef) -> dict[str, Any]:
    """Return the fields of a prize that are not None, as JSON has them."""
    fields = asdict(prize)
    if prize.at_least is not None and len(prize.at_least) == 1:
        fields["at_least"] = prize.at_least[0]
    return {name: _plain(value) for name, value in fields.items() if value is not None}


def _plain(value: object) -> object:
    if isinstance(value, Sequence) and not isinstance(value, str):
        return list(value)
    return str(value) if isinstance(value, Decimal) else value
