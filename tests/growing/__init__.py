"""What extensions need: a query and a window kind in a copy of the source, and a store."""
