"""The errors of ledgers: making a store from one, and comparing one with a store."""

from . import InvalidInput


class InvalidEntry(InvalidInput):
    """An entry that is to be put into a ranking is not one that the ranking could have."""

    code = "invalid_entry"
    advice = "give entries as `entries` returns them, each member once"
