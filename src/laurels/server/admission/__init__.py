"""Admission before a request is read: addresses, connections, rates, load."""
