"""`laurels import` from a sorted set of a Redis server."""
