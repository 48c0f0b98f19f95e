"""The cost of `laurels serve` over HTTP, beside services that a user would write instead.

Server and load generator have a core each. Every peer answers the same requests in the same run;
rounds alternate between peers, and after every round of writes the scores are compared with the
events that were sent.
"""
