"""What `laurels serve` costs over HTTP, beside what a user would write instead.

Server and load generator have a core each. Every peer answers the same requests in the same run;
rounds alternate between them, and after every round of writes the scores are compared with what
was sent.
"""
