"""Boards on an index server, beside what one would write by hand for the same Redis.

Servers run on the first core, the process that asks them on the last; all of it on this machine.
The servers are those of the tests: a port of their own and an append-only file, `everysec`.
"""
