"""`laurels serve`: the same boards as a service for any language.

A request goes through `app` (falcon on granian), is found in the table of `routes`, let in by
`access`, read by `requests`, answered by a verb and written by `answers`. `live` is the feed of
changes, `openapi` describes the table, `serving` runs it all in one process.
"""
