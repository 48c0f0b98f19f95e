"""`laurels serve`: boards as an HTTP service for any language.

`app` receives each request from granian, finds its handler in the route table of `routes` and
authorizes the caller. It reads the request with `wire.requests`, and writes the handler's answer
with `wire.answers`. `live` is the feed of changes, `openapi` describes the route table, and
`serving` runs everything in one process.
"""
