"""The HTTP format of requests, answers, errors and keys, for the service and its client."""
