"""The input of the service: the context, headers and body of a request, and repeated requests."""
