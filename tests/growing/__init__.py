"""What extensions need: a question and a window kind in a copy of the source, and a store."""
