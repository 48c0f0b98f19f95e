"""The SQL databases that a ledger can be in, and its tables."""
