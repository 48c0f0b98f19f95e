"""Tests of how many files an extension changes: a query, a column operator, a window kind and a
store."""
