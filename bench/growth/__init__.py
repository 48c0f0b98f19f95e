"""The cost of an operation as a board grows, beside the cost of memory as it grows."""
