"""Input: the context, headers and body of a request, and repeated requests."""
