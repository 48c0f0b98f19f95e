"""The verbs: `Leaderboards` and `AsyncLeaderboards`, over any store."""
