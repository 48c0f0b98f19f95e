"""The rows of the table of payouts."""

from collections.abc import Sequence
from typing import Any

from laurels.core.payouts import PayoutRow

FIELDS = PayoutRow.__struct_fields__
COLUMNS = ", ".join([f'"{name}"' for name in FIELDS])


def row_of(values: Sequence[Any]) -> PayoutRow:
    """Return a payout from the values of COLUMNS."""
    fields = dict(zip(FIELDS, values, strict=True))
    return PayoutRow(**{**fields, "withdrawn": bool(fields["withdrawn"])})
