"""A rolling window: its tallies, its two rankings and the pass between steps."""
