"""The payouts of the local store: made when a period is sealed, in a database beside the log."""
