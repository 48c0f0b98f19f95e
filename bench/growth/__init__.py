"""The cost of an operation as a board grows, compared with the cost of a memory access as the
memory grows."""
