"""Who may ask: keys, tokens, callers and the boards they reach."""
