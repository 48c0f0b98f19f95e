"""What flows out of boards: how fast, and how late."""
