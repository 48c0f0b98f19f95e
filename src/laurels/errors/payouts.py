"""The errors of payouts and of corrections of sealed periods."""

from . import Conflict, Fault, InvalidInput, NotFound


class UnknownPayout(NotFound):
    """The board has no payout with this id."""

    code = "unknown_payout"
    advice = "use an id from the list of payouts"


class PayoutConfirmed(Conflict):
    """The payout is confirmed with another reference."""

    code = "payout_confirmed"
    advice = "compare the two payments: this payout may have been paid twice"


class PayoutNotDue(Conflict):
    """The payout is not due yet, or was superseded by a correction."""

    code = "payout_not_due"
    advice = "pay only what is due: until then a correction of the period can supersede a payout"


class PayoutsOpen(Conflict):
    """The board has payouts that are not confirmed."""

    code = "payouts_open"
    advice = "confirm the payouts first, each with the reference of its payment"


class PayoutsMissing(Fault):
    """The file of payouts is gone, although payouts were made."""

    code = "payouts_missing"
    advice = (
        "restore payouts.db from a backup and open the store again; to go on without the payouts "
        "and confirmations that it had, create an empty file of that name"
    )


class InvalidReference(InvalidInput):
    """The reference of a payment, or the reason of a correction, is not valid text."""

    code = "invalid_reference"
    advice = "give text of 1 to 500 characters"


class InvalidState(InvalidInput):
    """The state is not one that a payout can have."""

    code = "invalid_state"
    advice = "give pending, due, confirmed or superseded, or leave it out"


class InvalidReader(InvalidInput):
    """The name of a reader of due payouts is not valid text."""

    code = "invalid_reader"
    advice = "give text of 1 to 4,096 characters, the same one in each call"


class PayoutsDiverged(Conflict):
    """The store does not have the payout that the cursor names.

    It has lost its newest data, was restored from a backup, or was rewound.
    """

    code = "payouts_diverged"
    advice = "read the due payouts from the beginning, without a cursor, and skip the ids you know"
