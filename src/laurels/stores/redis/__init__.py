"""The direct deployment: several processes over one index server, which is the truth.

There is no log: a write is one script that counts and appends what changed to a stream. What a
process knows of the boards is a copy, read again when the server says that it is old.
"""
