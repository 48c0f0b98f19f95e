"""The cost of `laurels serve` over HTTP, compared with services that a user would write instead.

The server and the load generator have a core each. Every peer answers the same requests in the same
run. Rounds alternate between peers, and after every round of writes the scores are compared with
the sent events.
"""
