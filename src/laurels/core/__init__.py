"""What every store does alike: plans, the fold, queries, answers. No disk and no server."""
