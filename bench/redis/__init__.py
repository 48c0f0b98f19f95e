"""Boards on an index server, compared with handwritten scripts on the same Redis.

All servers run on the first core of this machine, and their clients on the last. The servers are
those of the tests, with a port of their own and an append-only file, `everysec`.
"""
