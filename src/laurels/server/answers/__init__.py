"""The output of the service: encoded answers, the cache of answers, and streams."""
