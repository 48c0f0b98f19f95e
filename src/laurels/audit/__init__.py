"""The audit log: who administered what, when and why."""
