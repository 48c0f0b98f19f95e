"""What flows out of boards and into them: changes, sinks, ledgers and sources."""
