"""The write rule, fading totals, and the journal of what a batch overwrites."""
