"""Batches of events: reading them into columns, packing, and counting in all windows of a board."""
