"""The record of calls that administer."""
