"""The verbs over HTTP: what `laurels.open("http://…")` gives.

`calls` describes each verb once, as a pure function from its arguments to a `Call`; `transport`
sends calls and judges when one may be sent again. `laurels.api.http` has the verbs over both. Only
`transport` and `laurels.api.http` need httpx.
"""
