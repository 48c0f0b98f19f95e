"""Boards in several shards: batches divided, answers merged, rankings by label replicated."""
