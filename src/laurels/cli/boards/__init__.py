"""Commands on boards and their definitions."""
