"""The store of boards behind a service: the client that `laurels.open("http://…")` uses.

`calls` turns each query and command into a `Call`, by pure functions; `transport` sends calls and
decides when one may be sent again; `store` is the store made of both. Only `transport` and `store`
need httpx.
"""
