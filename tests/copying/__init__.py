"""Boards copied from one store to another."""
