"""The commands `sink`, `source` and `reconcile`."""
