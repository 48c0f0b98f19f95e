"""The stores of boards: in this process, on an index server, behind a service. No store imports
another."""
