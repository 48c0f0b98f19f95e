"""Boards in several shards: dividing batches, merging answers, replicating rankings by a label."""
