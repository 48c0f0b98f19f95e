"""The index on a Redis or Valkey server, single or cluster."""
