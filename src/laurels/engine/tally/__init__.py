"""Tallies: the totals of members in one step of a rolling window."""
