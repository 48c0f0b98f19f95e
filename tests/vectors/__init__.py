"""Vectors against which every implementation of a rule is checked: see `cases`."""
