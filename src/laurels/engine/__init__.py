"""The native engine: the member roster, the ranked set, columns in and out, and the write rule.

`docs/engine.md` explains how the parts fit together; each module begins with an essay of its own.
"""
