"""The public classes `Leaderboards` and `AsyncLeaderboards`, which work over any store."""
