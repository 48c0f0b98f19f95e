"""Benchmarks of rolling windows and snapshots; `suite` has their order."""
