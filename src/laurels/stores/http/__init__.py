"""The client of a service: what `laurels.open("http://…")` stands on.

`calls` describes each query and command once, as a pure function to a `Call`; `transport` sends
calls and judges when one may be sent again; `store` is the store made of both. Only `transport` and
`store` need httpx.
"""
