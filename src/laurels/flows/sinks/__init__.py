"""Sinks: named consumers that send the changes of boards to a target."""
