"""The stores of boards: in this process, on an index server, and at a service. No store imports
another."""
