"""Output: encoded answers, the cache of answers, and streams."""
