"""Time: zones, calendar arithmetic, steps and clocks. Nothing here knows a board."""
