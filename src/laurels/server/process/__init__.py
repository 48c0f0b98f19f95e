"""The process of a server: its settings, workers, listening addresses, memory and log."""
