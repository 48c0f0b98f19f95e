"""What goes out: encoded answers, the cache of answers, and streams."""
