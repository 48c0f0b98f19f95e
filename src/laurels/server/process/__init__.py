"""The process that serves: settings, workers, listening addresses, memory, its log."""
