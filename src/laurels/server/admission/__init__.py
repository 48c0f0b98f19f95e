"""Limits that apply before a request is read: on addresses, connections, rates and load."""
