"""The write rule, totals with decay, and the journal for undoing a batch."""
