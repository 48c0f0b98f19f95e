"""The format of requests, answers, errors and keys over HTTP, for both of its ends."""
