"""Time: zones, calendar arithmetic, steps and clocks. Independent of boards."""
