"""Benchmarks of changes, sinks, ledgers and sources."""
