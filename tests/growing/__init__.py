"""What growing takes: a question and a window kind, added to a copy of the source, and a store."""
