"""Boards on an index server, beside scripts written by hand for the same Redis.

Servers run on the first core, their clients on the last, all on this machine. The servers are those
of the tests: a port of their own and an append-only file, `everysec`.
"""
