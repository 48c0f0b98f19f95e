"""Changes that flow out of boards into other systems, and events that flow in."""
