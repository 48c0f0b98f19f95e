"""Batches: read into columns, packed, and counted in all windows of a board."""
