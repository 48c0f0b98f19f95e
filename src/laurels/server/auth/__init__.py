"""Authentication and authorization: keys, tokens, callers and the boards they reach."""
