"""The errors of rebuilding a store from a ledger, and of comparing the two."""

from . import Conflict, InvalidInput


class FinalOvertaken(Conflict):
    """Another process writes the same sealed period into the ledger."""

    code = "final_overtaken"
    advice = "let only one runner of the sink write to the ledger"


class InvalidEntry(InvalidInput):
    """No ranking of the board can have this entry."""

    code = "invalid_entry"
    advice = "give entries in the form that `entries` returns, with each member at most once"


class LedgerIncomplete(Conflict):
    """The ledger does not have every current entry of a board yet."""

    code = "ledger_incomplete"
    advice = "let the ledger's sink run until it has sent everything (`laurels sink status NAME`)"


class NoLedger(InvalidInput):
    """The database has no ledger, or the ledger does not have the requested boards."""

    code = "no_ledger"
    advice = (
        "name the database and the ?prefix= that the sink writes to, and only boards that the "
        "ledger has"
    )


class RebuildTaken(Conflict):
    """The target has another board of that name, or an unfinished copy of another board."""

    code = "rebuild_taken"
    advice = (
        "delete the board first, rebuild into another store, or choose other boards with --boards"
    )
