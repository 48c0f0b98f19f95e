"""The write rule, decay totals, and the journal of what a batch overwrites."""
