"""The record of calls that administer, and of calls that set a score."""
