"""Sources: streams of events that feed boards."""
