"""The files beside the log: keys, the audit log, the clock, and how private files are written."""
