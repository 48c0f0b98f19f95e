"""The logic that all stores share: plans, the fold, queries, answers. No disk and no server."""
