"""The audit log of administrative calls, including those that set a score."""
