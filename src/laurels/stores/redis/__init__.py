"""The store on an index server: several processes share boards on one Redis or Valkey server.

There is no log; all state is on the server. A write is one script, which counts the events and
appends the change to a stream. Each process has a copy of the definitions, and reads them again
when the server refuses a call because the copy is outdated.
"""
