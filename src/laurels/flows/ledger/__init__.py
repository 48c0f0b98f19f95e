"""The ledger: the standings of boards as tables of an SQL database."""
