"""The commands of sinks and sources."""
