"""The native engine: the member roster, the ranked set, columns in and out, and the write rule.

`docs/engine.md` says how the parts fit; each module opens with its own essay.
"""
