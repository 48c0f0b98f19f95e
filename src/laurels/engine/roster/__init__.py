"""Members under dense ids, and the hash table they are found by."""
