"""Intake: validate commands and gather concurrent writes, the same for every store."""
