"""The store on an index server: several processes share boards on one Redis or Valkey server.

There is no log, the server holds the only state: a write is one script that counts and appends the
change to a stream. Each process has a copy of the definitions, which it reads again when the server
refuses a call because the copy is outdated.
"""
