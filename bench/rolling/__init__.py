"""Benchmarks of rolling windows and snapshots; `suite` runs them in order."""
