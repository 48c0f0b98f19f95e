"""Rolling windows: their tallies, their two rankings and the pass between steps."""
