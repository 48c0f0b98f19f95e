"""The verbs over HTTP: what `laurels.open("http://…")` gives.

`calls` describes each verb once, as a pure function from its arguments to a `Call`; `wire` sends
calls and judges when one may be sent again; `surfaces` are tables of the verbs over both. Only
`wire` and `surfaces` need httpx.
"""
