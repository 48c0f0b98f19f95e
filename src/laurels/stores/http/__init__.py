"""The store of boards at a service: the client that `laurels.open("http://…")` uses.

`calls` turns each query and command into a `Call`, by pure functions. `transport` sends calls and
decides when a call may be sent again. `store` combines the two into a store. Only `transport` and
`store` need httpx.
"""
