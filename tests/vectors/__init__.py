"""Vectors that every home of a rule is checked against: see `cases`."""
