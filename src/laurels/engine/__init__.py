"""The native engine: the member roster, ranked sets, tallies, batches of events in columns, and the
write rule.

`docs/engine.md` explains how the parts fit together; each module begins with an essay of its own.
"""
