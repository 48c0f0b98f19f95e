"""The files beside the log: the keys, the audit log, the clock reference; and private files."""
