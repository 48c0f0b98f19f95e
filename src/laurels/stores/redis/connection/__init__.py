"""The connection to an index server: addresses, calls, deadlines, errors, and moving slots."""
