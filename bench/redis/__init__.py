"""Boards on an index server, compared with handwritten scripts on the same Redis.

All servers run on the first core of this machine, and their clients on the last. The servers are
started as in the tests, each on a port of its own and with an append-only file (`everysec`).
"""
