"""Rolling windows and snapshots under measurement; `suite` says what and in which order."""
