"""Where boards are kept: here, on an index server, at a service. None imports another."""
