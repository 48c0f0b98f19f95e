"""Encoded answers that a process keeps in memory, and what readers have seen of a board."""
