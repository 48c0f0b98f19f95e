"""Boards in several stores behind one service: each board is in the store that its name points to.

A placed store may be down. Then only its own boards are unavailable (`placed`).
"""
