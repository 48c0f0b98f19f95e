"""`laurels import`: events from files."""
